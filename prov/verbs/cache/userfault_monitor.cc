// SPDX-License-Identifier: BSD-2-Clause
// Reports of the kernel; see userfault_monitor.h.
#include "verbs/cache/userfault_monitor.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <new>

#include "base/standard_descriptors.h"
#include "base/unique_fd.h"
#include "verbs/cache/memory_map.h"

namespace weft::verbs {
namespace {

constexpr int kUserModeOnly = 1;  // UFFD_USER_MODE_ONLY: allowed without privileges
// Not every architecture has the write-protect mode.
constexpr std::uint64_t kFeatures =
    UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_PAGEFAULT_FLAG_WP;

std::atomic<UserfaultMonitor*> current{nullptr};

// Before 5.15 the kernel has a flag for changes under way, not their number, and loses one of two.
bool counts_changes() noexcept {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 15);
}

uffdio_range to_kernel(const MemoryRange& range) noexcept {
  return {range.start, range.size()};
}

// The error for an empty range. The kernel refuses to change protection while a change is not reported, with EAGAIN,
// before it finds the range invalid.
int protect_nothing(int descriptor) noexcept {
  uffdio_writeprotect nothing{};
  return ::ioctl(descriptor, UFFDIO_WRITEPROTECT, &nothing) == 0 ? 0 : errno;
}

MemoryRange range_of(std::uint64_t start, std::uint64_t end) noexcept {
  return {static_cast<std::uintptr_t>(start), static_cast<std::uintptr_t>(end)};
}

}  // namespace

std::unique_ptr<MemoryMonitor> UserfaultMonitor::open(const char*& why) noexcept {
  why = "the kernel is older than 5.15";
  if (!counts_changes()) return nullptr;
  UniqueFd descriptor(
      above_standard(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly))));
  why = "userfaultfd is not permitted here";
  if (!descriptor) return nullptr;
  uffdio_api api{.api = UFFD_API, .features = kFeatures, .ioctls = 0};
  why = "the kernel reports no changes of memory";
  if (::ioctl(descriptor.get(), UFFDIO_API, &api) != 0 || (api.features & kFeatures) != kFeatures ||
      protect_nothing(descriptor.get()) != EINVAL)
    return nullptr;
  why = "memory runs out";
  std::unique_ptr<UserfaultMonitor> monitor(new (std::nothrow) UserfaultMonitor(descriptor.get()));
  if (monitor == nullptr) return nullptr;
  descriptor.release();
  why = "another monitor is open, or fork cannot be observed";
  static const bool observes_fork = ::pthread_atfork(nullptr, nullptr, on_forked_child) == 0;
  UserfaultMonitor* none = nullptr;
  if (!observes_fork || !current.compare_exchange_strong(none, monitor.get())) return nullptr;
  why = nullptr;
  return monitor;
}

UserfaultMonitor::~UserfaultMonitor() {
  stop();
  UserfaultMonitor* self = this;
  current.compare_exchange_strong(self, nullptr);
}

// The descriptor is that of the parent's memory. A child must not take the parent's reports; and the parent's watch
// ends with the last copy of the descriptor.
void UserfaultMonitor::on_forked_child() noexcept {
  UserfaultMonitor* const monitor = current.load();
  if (monitor == nullptr) return;
  if (const int descriptor = monitor->descriptor_.exchange(-1); descriptor >= 0) ::close(descriptor);
}

// Closing the descriptor ends every watch, and lets those continue that wait for their report to be read.
void UserfaultMonitor::stop() noexcept {
  thread_.stop();
  if (const int descriptor = descriptor_.exchange(-1); descriptor >= 0) ::close(descriptor);
}

// Write protection that is never switched on: no access to the memory faults.
bool UserfaultMonitor::watch(const MemoryRange& range) noexcept {
  uffdio_register request{.range = to_kernel(range), .mode = UFFDIO_REGISTER_MODE_WP, .ioctls = 0};
  return ::ioctl(descriptor_.load(), UFFDIO_REGISTER, &request) == 0;
}

void UserfaultMonitor::unwatch(const MemoryRange& range) noexcept {
  uffdio_range request = to_kernel(range);
  ::ioctl(descriptor_.load(), UFFDIO_UNREGISTER, &request);
}

bool UserfaultMonitor::read(ChangeListener& listener) noexcept {
  uffd_msg messages[16];
  const ssize_t size = ::read(descriptor_.load(), messages, sizeof messages);
  if (size < static_cast<ssize_t>(sizeof *messages)) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size) / sizeof *messages; ++i) {
    const auto& arg = messages[i].arg;
    switch (messages[i].event) {
      case UFFD_EVENT_UNMAP:
        listener.on_change(range_of(arg.remove.start, arg.remove.end), MemoryChange::kUnmapped);
        break;
      case UFFD_EVENT_REMAP:  // the watch moves along
        listener.on_change(range_of(arg.remap.from, arg.remap.from + arg.remap.len), MemoryChange::kUnmapped);
        listener.on_change(range_of(arg.remap.to, arg.remap.to + arg.remap.len), MemoryChange::kUnmapped);
        unwatch(range_of(arg.remap.to, arg.remap.to + arg.remap.len));
        break;
      case UFFD_EVENT_REMOVE:
        listener.on_change(range_of(arg.remove.start, arg.remove.end), MemoryChange::kDiscarded);
        break;
      default:
        break;
    }
  }
  return true;
}

// Any other answer is not the kernel's: for instance, the program has closed all descriptors.
bool UserfaultMonitor::is_settled() noexcept {
  return protect_nothing(descriptor_.load()) == EINVAL;
}

// Memory of files may lose its pages by ftruncate(2) or fallocate(2), which nothing reports; shared memory too.
bool UserfaultMonitor::covers(const MemoryRange& range) noexcept {
  return is_private_anonymous(range);
}

}  // namespace weft::verbs
