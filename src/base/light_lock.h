// SPDX-License-Identifier: BSD-2-Clause
// The lock of data paths: without contention one inlined atomic exchange to take it and one to release it. Waiters
// sleep in the kernel instead of spinning against a holder that may be preempted.
#pragma once

#include <linux/futex.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace weft {

// Meets Lockable.
class LightLock {
 public:
  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  bool try_lock() noexcept {
    if (alone()) {
      if (state_.load(std::memory_order_relaxed) != kFree) return false;
      state_.store(kHeld, std::memory_order_relaxed);
      return true;
    }
    return (state_.fetch_or(kHeld, std::memory_order_acquire) & kHeld) == 0;  // two instructions on x86
  }
  void unlock() noexcept {
    if (alone()) return state_.store(kFree, std::memory_order_relaxed);
    if (state_.fetch_sub(kHeld, std::memory_order_release) != kHeld) [[unlikely]]
      futex(FUTEX_WAKE_PRIVATE, 1);  // may be destroyed by now: only its address is used
  }

 private:
  // No other thread has ever been started, so plain loads and stores are enough. The state is stored all the same,
  // because a thread may be started while the lock is held.
  static bool alone() noexcept {
#if __has_include(<sys/single_threaded.h>)
    return __libc_single_threaded != 0;
#else
    return false;
#endif
  }

  static constexpr int kFree = 0;
  static constexpr int kHeld = 1;
  static constexpr int kWaiter = 2;  // for each thread that may be asleep

  // Out of line, so that callers of lock() and unlock() save no registers for the slow path.
  [[gnu::noinline, gnu::cold]] void wait() noexcept {
    int state = state_.fetch_add(kWaiter, std::memory_order_relaxed) + kWaiter;
    while ((state & kHeld) != 0 ||
           !state_.compare_exchange_weak(state, state - kWaiter + kHeld, std::memory_order_acquire)) {
      if ((state & kHeld) != 0) futex(FUTEX_WAIT_PRIVATE, state);
      state = state_.load(std::memory_order_relaxed);
    }
  }
  // std::atomic's wait() would bring libstdc++'s table of sleepers into every object file.
  [[gnu::noinline, gnu::cold]] void futex(int what, int value) noexcept {
    static_assert(sizeof state_ == sizeof(int));
    const int kept = errno;  // no lock changes it
    ::syscall(SYS_futex, &state_, what, value, nullptr, nullptr, 0);
    errno = kept;
  }

  std::atomic<int> state_{kFree};
};

using LightGuard = std::lock_guard<LightLock>;

}  // namespace weft
