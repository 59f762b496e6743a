// SPDX-License-Identifier: BSD-2-Clause
// See public_symbols.h.
#include "public_symbols.h"

#include <gtest/gtest.h>
#include <rdma/providers/fi_log.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace {

std::mutex lines_mutex;
std::vector<std::string> lines;
std::atomic<unsigned long> allocation_count;

}  // namespace

extern "C" {

int fi_log_enabled(const fi_provider*, fi_log_level, fi_log_subsys) {
  return 1;
}

void fi_log(const fi_provider*, fi_log_level, fi_log_subsys, const char*, int, const char* fmt, ...) {
  char line[1024];
  va_list args;
  va_start(args, fmt);
  std::vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  std::lock_guard lock(lines_mutex);
  lines.emplace_back(line, std::strcspn(line, "\n"));
}

const char* fi_strerror(int error) {
  return error == 0 ? "Success" : "some error";
}

}  // extern "C"

// The sanitizers have their own new and delete; only the release build counts allocations.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_SANITIZED
#endif
#endif

#ifndef WEFT_SANITIZED
// Not inlined, otherwise the compiler warns about a new and a free that do not match.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size != 0 ? size : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace weft {

std::vector<std::string> take_log() {
  std::lock_guard lock(lines_mutex);
  return std::exchange(lines, {});
}

unsigned long allocations() noexcept {
  return allocation_count.load();
}

TEST(PublicSymbols, StoreLogLines) {
  take_log();
  fi_log(nullptr, FI_LOG_INFO, FI_LOG_CORE, "", 0, "%s\n", "line");
  EXPECT_EQ(take_log(), std::vector<std::string>{"line"});
}

}  // namespace weft
