// SPDX-License-Identifier: BSD-2-Clause
// The number of this process; see this_process.h.
#include "tcp/this_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

namespace weft::tcp {
namespace {

// A page of its own, which a fork(2) wipes in the child, and dlclose(3) releases with the library. Zero: not known yet.
// For larger pages it would have to be larger, which hides the library from valgrind(1).
constexpr long kPageSize = 4096;
struct alignas(kPageSize) Page {
  std::atomic<pid_t> number;
  std::byte rest[kPageSize - sizeof number];
};
Page page;

// False where pages are larger, or the system refuses.
bool is_wiped_on_fork() noexcept {
  return ::sysconf(_SC_PAGESIZE) == kPageSize && ::madvise(&page, sizeof page, MADV_WIPEONFORK) == 0;
}

}  // namespace

pid_t this_process() noexcept {
  static const bool wiped = is_wiped_on_fork();
  if (!wiped) return ::getpid();
  if (const pid_t known = page.number.load(std::memory_order_relaxed); known != 0) return known;
  const pid_t found = ::getpid();
  page.number.store(found, std::memory_order_relaxed);
  return found;
}

}  // namespace weft::tcp
