// SPDX-License-Identifier: BSD-2-Clause
// The lock of data paths: one atomic exchange to take and one to release when nobody else wants it, inlined; whoever
// has to wait sleeps in the kernel, so a holder that was preempted is not spun against.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace weft {

// Meets Lockable.
class LightLock {
 public:
  LightLock() noexcept = default;
  LightLock(const LightLock&) = delete;
  LightLock& operator=(const LightLock&) = delete;

  void lock() noexcept {
    int state = kFree;
    if (!state_.compare_exchange_strong(state, kHeld, std::memory_order_acquire, std::memory_order_relaxed))
        [[unlikely]]
      wait();
  }
  bool try_lock() noexcept {
    int state = kFree;
    return state_.compare_exchange_strong(state, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kWanted) [[unlikely]]
      futex(FUTEX_WAKE_PRIVATE, 1);
  }

 private:
  static constexpr int kFree = 0;
  static constexpr int kHeld = 1;
  static constexpr int kWanted = 2;  // held, and somebody may be asleep

  void wait() noexcept {
    while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) futex(FUTEX_WAIT_PRIVATE, kWanted);
  }
  // std::atomic's wait() would bring libstdc++'s table of sleepers into every object file.
  void futex(int what, int value) noexcept {
    static_assert(sizeof state_ == sizeof(int));
    const int kept = errno;  // no lock changes it
    ::syscall(SYS_futex, &state_, what, value, nullptr, nullptr, 0);
    errno = kept;
  }

  std::atomic<int> state_{kFree};
};

using LightGuard = std::lock_guard<LightLock>;

}  // namespace weft
