// SPDX-License-Identifier: BSD-2-Clause
// Counts heap calls: the executable's malloc family precedes glibc's for every library in the process, dlopened ones
// included, and forwards to it. Memory stays glibc's own, so free needs no counterpart here.
#include <atomic>
#include <cerrno>
#include <cstddef>

#include "process/process_cost.h"

#ifdef BENCH_KEEP_MALLOC  // set by CMake for sanitizer builds, which own malloc

std::optional<std::uint64_t> bench::allocation_count() {
  return std::nullopt;
}

#else

namespace {

constinit std::atomic<std::uint64_t> calls{0};

void count_one() {
  calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::optional<std::uint64_t> bench::allocation_count() {
  return calls.load(std::memory_order_relaxed);
}

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

#pragma GCC visibility push(default)
void* malloc(std::size_t size) {
  count_one();
  return __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) {
  count_one();
  return __libc_calloc(count, size);
}

void* realloc(void* old, std::size_t size) {
  count_one();
  return __libc_realloc(old, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count_one();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  count_one();
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
#pragma GCC visibility pop
}

#endif
