// SPDX-License-Identifier: BSD-2-Clause
// The failing allocator of tests; see failing_allocations.h.
#include "failing_allocations.h"

#include <cerrno>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WEFT_SANITIZED 1
#endif
#endif

namespace weft::test {
namespace {

// In static TLS, because malloc itself must not allocate.
struct Plan {
  std::size_t until_failure;  // 0: none planned
  std::size_t failures;       // left
  bool failed;
};
__attribute__((tls_model("initial-exec"))) thread_local Plan plan{};
__attribute__((tls_model("initial-exec"))) thread_local int spared = 0;
__attribute__((tls_model("initial-exec"))) thread_local long live = 0;

}  // namespace

FailingAllocation::FailingAllocation(std::size_t nth, std::size_t count) noexcept {
  plan = {nth, count, false};
}
FailingAllocation::~FailingAllocation() {
  plan = {};
}

bool FailingAllocation::failed() const noexcept {
  return plan.failed;
}

void spare_allocations(int change) noexcept {
  spared += change;
}
long live_allocations() noexcept {
  return live;
}

#ifdef WEFT_SANITIZED
bool FailingAllocation::supported() noexcept {
  return false;
}
}  // namespace weft::test
#else
bool FailingAllocation::supported() noexcept {
  return true;
}

namespace {

bool fails_now() noexcept {
  if (plan.until_failure == 0 || spared > 0) return false;
  if (--plan.until_failure != 0) return false;
  plan.failed = true;
  if (--plan.failures != 0) plan.until_failure = 1;
  errno = ENOMEM;
  return true;
}

void count(long blocks) noexcept {
  if (spared <= 0) live += blocks;
}
void* counted(void* block) noexcept {
  count(block != nullptr ? 1 : 0);
  return block;
}

}  // namespace
}  // namespace weft::test

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* block);

using weft::test::counted, weft::test::fails_now;

void* malloc(std::size_t size) {
  return fails_now() ? nullptr : counted(__libc_malloc(size));
}
void* calloc(std::size_t count, std::size_t size) {
  return fails_now() ? nullptr : counted(__libc_calloc(count, size));
}
void* realloc(void* old, std::size_t size) {
  if (fails_now()) return nullptr;
  void* const block = __libc_realloc(old, size);
  return old == nullptr ? counted(block) : block;
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return fails_now() ? nullptr : counted(__libc_memalign(alignment, size));
}
void* memalign(std::size_t alignment, std::size_t size) {
  return aligned_alloc(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = aligned_alloc(alignment, size);
  return *block != nullptr ? 0 : ENOMEM;
}
void free(void* block) {
  if (block != nullptr) weft::test::count(-1);
  __libc_free(block);
}
}
#endif
