// SPDX-License-Identifier: BSD-2-Clause
// A mutex that can be turned off while the application promises to serialise its users: the threading models of
// fi_domain(3). Then it costs no atomic operation. It can be turned on at any time (decision 0006).
//
// ThreadSanitizer finds lock order inversions of std::mutex only, so its builds use that.
#pragma once

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/light_lock.h"
#include "base/thread_sanitizer.h"

namespace weft {

#if defined(WEFT_THREAD_SANITIZER)
using MutexLock = std::mutex;
#else
using MutexLock = LightLock;
#endif

// Meets Lockable, so std::lock_guard and std::unique_lock apply. It starts on or off. If it starts off, the application
// serialises enable() with the users too. disable() turns it off for users that are serialised among themselves, but
// not with a thread that calls enable().
//
// After disable() a user stores that it enters, then loads the mode; enable() stores the mode, then loads whether a
// user is inside. For one of them to see the other, both need a barrier in between. enable(), which is rare, imposes
// the barrier on all threads of the process (membarrier).
class Mutex {
 public:
  explicit Mutex(bool enabled = true) noexcept : mode_(enabled ? Mode::kOn : Mode::kOff) {}

  void lock() {
    if (mode() == Mode::kOff) return;
    if (mode() == Mode::kBypassed && enter()) return;
    mutex_.lock();
  }
  bool try_lock() {
    if (mode() == Mode::kOff) return true;
    if (mode() == Mode::kBypassed && enter()) return true;
    return mutex_.try_lock();
  }
  void unlock() {
    if (mode() == Mode::kOff) return;
    if (entered_) return leave();
    mutex_.unlock();
  }

  bool enabled() const noexcept { return mode() == Mode::kOn; }
  // Turns the lock on and waits until all users have left. Called by a thread that is not inside, one at a time.
  void enable() noexcept {
    const Mode before = mode();
    mode_.store(Mode::kOn, std::memory_order_relaxed);
    if (before == Mode::kBypassed) wait_until_left();
  }
  // Turns the lock off: its users are serialised from now on. The caller holds it. False, with nothing changed, where
  // the system lacks membarrier.
  bool disable() noexcept {
    if (!enabled()) return true;
    if (::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0) return false;
    mode_.store(Mode::kBypassed, std::memory_order_relaxed);
    return true;
  }
  // For a thread that ends the process, perhaps in a signal handler that interrupted a user. Turns the lock on. False
  // if a user is or may be inside; one may if the lock has always been off.
  bool try_lock_last() noexcept {
    if (mode() == Mode::kOff) return false;
    if (mode_.exchange(Mode::kOn, std::memory_order_relaxed) == Mode::kBypassed) impose_barrier();
    return !entering_.load(std::memory_order_acquire) && mutex_.try_lock();
  }
  // Returns after all users that were inside at the time of the call have left, even if it is off. Not called from
  // inside.
  void wait_for_others() {
    if (mode() == Mode::kBypassed) return wait_until_left();
    lock();
    unlock();
  }

 private:
  enum class Mode : std::uint8_t { kOff, kBypassed, kOn };

  Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  // Always inlined, otherwise the path with real locks would save registers for it.
  [[gnu::always_inline]] bool enter() noexcept {
    entering_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (mode() == Mode::kBypassed) [[likely]] {
      entered_ = true;
      return true;
    }
    entering_.store(false, std::memory_order_release);
    return false;
  }
  void leave() noexcept {
    entered_ = false;
    entering_.store(false, std::memory_order_release);
  }
  static void impose_barrier() noexcept { ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); }
  [[gnu::noinline, gnu::cold]] void wait_until_left() noexcept {
    impose_barrier();
    while (entering_.load(std::memory_order_acquire)) ::sched_yield();
  }

  MutexLock mutex_;
  std::atomic<Mode> mode_;
  std::atomic<bool> entering_{false};  // a user is inside without the lock, or about to find that it is on
  bool entered_ = false;               // a user is inside without the lock; holders of the lock read false
};

using Lock = std::lock_guard<Mutex>;
using UniqueLock = std::unique_lock<Mutex>;

}  // namespace weft
