// SPDX-License-Identifier: BSD-2-Clause
// The lock of data paths: one atomic exchange to take and one to release when nobody else wants it, inlined; whoever
// has to wait sleeps in the kernel, so a holder that was preempted is not spun against.
#pragma once

#include <atomic>
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
      state_.notify_one();
  }

 private:
  static constexpr int kFree = 0;
  static constexpr int kHeld = 1;
  static constexpr int kWanted = 2;  // held, and somebody may be asleep

  void wait() noexcept {
    while (state_.exchange(kWanted, std::memory_order_acquire) != kFree)
      state_.wait(kWanted, std::memory_order_relaxed);
  }

  std::atomic<int> state_{kFree};
};

using LightGuard = std::lock_guard<LightLock>;

}  // namespace weft
