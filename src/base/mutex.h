// SPDX-License-Identifier: BSD-2-Clause
// A mutex that can be told not to lock, for as long as the application's promises see to it that its users take turns:
// the threading models of fi_domain(3). They pay for no atomic operation then. It may be told to lock at any time
// (decision 0006).
//
// ThreadSanitizer finds locks taken in opposite orders with std::mutex only, so there it is one.
#pragma once

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/light_lock.h"

namespace weft {

#if defined(__SANITIZE_THREAD__)
using MutexLock = std::mutex;
#elif !defined(__has_feature)
using MutexLock = LightLock;
#elif __has_feature(thread_sanitizer)
using MutexLock = std::mutex;
#else
using MutexLock = LightLock;
#endif

// Meets Lockable, so std::lock_guard and std::unique_lock apply. It starts as a lock, or as nothing at all: for users
// who take turns, with enable() too. disable() makes it give way to users who take turns among themselves, but not with
// whoever enables it.
//
// Whoever enters after disable() says so, then looks whether that is still right; whoever enables the lock says that,
// then looks whether somebody is inside. For one of them to see the other, both need a barrier in between. The one that
// enables, which is rare, makes all threads of the process have one.
class Mutex {
 public:
  explicit Mutex(bool enabled = true) noexcept : mode_(enabled ? Mode::kLocks : Mode::kTurns) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    if (mode() == Mode::kTurns) return;
    if (mode() == Mode::kGivesWay && enter()) return;
    mutex_.lock();
  }
  bool try_lock() {
    if (mode() == Mode::kTurns) return true;
    if (mode() == Mode::kGivesWay && enter()) return true;
    return mutex_.try_lock();
  }
  void unlock() {
    if (mode() == Mode::kTurns) return;
    if (entered_) return leave();
    mutex_.unlock();
  }

  bool enabled() const noexcept { return mode() == Mode::kLocks; }
  // From now on it locks, and whoever was inside has left. Any thread that is not inside itself; of several, one at a
  // time.
  void enable() noexcept {
    const Mode before = mode();
    mode_.store(Mode::kLocks, std::memory_order_relaxed);
    if (before == Mode::kGivesWay) wait_until_left();
  }
  // From now on its users take turns among themselves. The caller has it locked. False, and nothing changed, where the
  // system lacks what enable() needs while others work.
  bool disable() noexcept {
    if (!enabled()) return true;
    if (::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0) return false;
    mode_.store(Mode::kGivesWay, std::memory_order_relaxed);
    return true;
  }
  // Returns after everybody has left who was inside when it was called, even if it does not lock. Not from inside.
  void wait_for_others() {
    if (mode() == Mode::kGivesWay) return wait_until_left();
    lock();
    unlock();
  }

 private:
  enum class Mode : std::uint8_t { kTurns, kGivesWay, kLocks };

  Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  // Always inlined, or the case of real locks would save registers for this one.
  [[gnu::always_inline]] bool enter() noexcept {
    entering_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (mode() == Mode::kGivesWay) [[likely]] {
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
  [[gnu::noinline, gnu::cold]] void wait_until_left() noexcept {
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    while (entering_.load(std::memory_order_acquire)) ::sched_yield();
  }

  MutexLock mutex_;
  std::atomic<Mode> mode_;
  std::atomic<bool> entering_{false};  // somebody is inside without the lock, or about to find that it is needed
  bool entered_ = false;               // the former; whoever holds the lock sees false
};

using Lock = std::lock_guard<Mutex>;
using UniqueLock = std::unique_lock<Mutex>;

}  // namespace weft
