// SPDX-License-Identifier: BSD-2-Clause
// The failing allocator of tests; see failing_allocations.h.
#include "failing_allocations.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define WEFT_ADDRESSES 1
#elif __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WEFT_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define WEFT_ADDRESSES 1
#elif defined(__SANITIZE_THREAD__)
#define WEFT_SANITIZED 1
#endif

extern "C" {
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* block);
}

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
std::atomic<long> live{0};

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

bool FailingAllocation::supported() noexcept {
#ifdef WEFT_SANITIZED
  return false;
#else
  return true;
#endif
}

bool FailingAllocation::complete() noexcept {
#if defined(WEFT_SANITIZED) || defined(WEFT_ADDRESSES)
  return false;
#else
  return true;
#endif
}

namespace {

[[maybe_unused]] bool fails_now() noexcept {
  if (plan.until_failure == 0 || spared > 0) return false;
  if (--plan.until_failure != 0) return false;
  plan.failed = true;
  if (--plan.failures != 0) plan.until_failure = 1;
  errno = ENOMEM;
  return true;
}

}  // namespace
}  // namespace weft::test

#if defined(WEFT_ADDRESSES)
using weft::test::fails_now;

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return fails_now() ? nullptr : malloc(size);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  void* block = nullptr;
  return !fails_now() && posix_memalign(&block, static_cast<std::size_t>(alignment), size) == 0 ? block : nullptr;
}
void* operator new(std::size_t size) {
  void* const block = operator new(size, std::nothrow);
  return block != nullptr ? block : throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  void* const block = operator new(size, alignment, std::nothrow);
  return block != nullptr ? block : throw std::bad_alloc();
}
void* operator new[](std::size_t size) {
  return operator new(size);
}
void* operator new[](std::size_t size, const std::nothrow_t& nothrow) noexcept {
  return operator new(size, nothrow);
}
void operator delete(void* block) noexcept {
  free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  free(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  free(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  free(block);
}
void operator delete[](void* block) noexcept {
  free(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  free(block);
}
#elif !defined(WEFT_SANITIZED)
namespace weft::test {
namespace {

// In front of each block: the thread that frees a block need not be the one that allocated it, and either may be
// spared.
struct alignas(std::max_align_t) Header {
  void* start;
  std::size_t size;
  bool counts;
};

Header& header_of(void* block) noexcept {
  return static_cast<Header*>(block)[-1];
}

void* allocate(std::size_t size, std::size_t alignment = alignof(Header)) noexcept {
  const std::size_t room = std::max(alignment, sizeof(Header));
  if (fails_now() || size > SIZE_MAX - room) return nullptr;
  void* const start = __libc_memalign(alignment, room + size);
  if (start == nullptr) return nullptr;
  void* const block = static_cast<std::byte*>(start) + room;
  Header& header = header_of(block);
  header = {start, size, spared <= 0};
  if (header.counts) ++live;
  return block;
}

}  // namespace
}  // namespace weft::test

extern "C" {
using weft::test::allocate, weft::test::header_of;

void* malloc(std::size_t size) {
  return allocate(size);
}
void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  void* const block = __builtin_mul_overflow(count, size, &bytes) ? nullptr : allocate(bytes);
  return block != nullptr ? std::memset(block, 0, bytes) : nullptr;
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return allocate(size, std::max(alignment, alignof(weft::test::Header)));
}
void* memalign(std::size_t alignment, std::size_t size) {
  return aligned_alloc(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = aligned_alloc(alignment, size);
  return *block != nullptr ? 0 : ENOMEM;
}
void free(void* block) {
  if (block == nullptr) return;
  if (header_of(block).counts) --weft::test::live;
  __libc_free(header_of(block).start);
}
void* realloc(void* old, std::size_t size) {
  void* const block = allocate(size);
  if (old == nullptr || block == nullptr) return block;
  std::memcpy(block, old, std::min(size, header_of(old).size));
  free(old);
  return block;
}
}
#endif
