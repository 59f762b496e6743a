// SPDX-License-Identifier: BSD-2-Clause
// A mutex that can be told not to lock: objects of a domain whose threading model promises that the application
// serialises its calls (FI_THREAD_DOMAIN, FI_THREAD_COMPLETION; fi_domain(3)) pay for no atomic operation.
//
// ThreadSanitizer finds locks taken in opposite orders with std::mutex only, so there it is one.
#pragma once

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

// Meets Lockable, so std::lock_guard and std::unique_lock apply.
class Mutex {
 public:
  explicit Mutex(bool enabled = true) noexcept : enabled_(enabled) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    if (enabled_) mutex_.lock();
  }
  bool try_lock() { return !enabled_ || mutex_.try_lock(); }
  void unlock() {
    if (enabled_) mutex_.unlock();
  }

 private:
  MutexLock mutex_;
  const bool enabled_;
};

using Lock = std::lock_guard<Mutex>;
using UniqueLock = std::unique_lock<Mutex>;

}  // namespace weft
