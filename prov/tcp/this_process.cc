// SPDX-License-Identifier: BSD-2-Clause
// The number of this process; see this_process.h.
#include "tcp/this_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace weft::tcp {
namespace {

using Number = std::atomic<pid_t>;

// Null where the system refuses.
Number* make_page() noexcept {
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, size, MADV_WIPEONFORK) == 0) return new (page) Number;
  ::munmap(page, size);
  return nullptr;
}

}  // namespace

pid_t this_process() noexcept {
  static Number* const page = make_page();
  if (page == nullptr) return ::getpid();
  if (const pid_t known = page->load(std::memory_order_relaxed); known != 0) return known;
  const pid_t found = ::getpid();
  page->store(found, std::memory_order_relaxed);
  return found;
}

}  // namespace weft::tcp
