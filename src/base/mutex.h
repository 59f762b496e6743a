// SPDX-License-Identifier: BSD-2-Clause
// A mutex that can be told not to lock: objects of a domain whose threading model promises that the application
// serialises its calls (FI_THREAD_DOMAIN, FI_THREAD_COMPLETION; fi_domain(3)) pay for no atomic operation.
#pragma once

#include <mutex>

namespace weft {

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
  std::mutex mutex_;
  const bool enabled_;
};

using Lock = std::lock_guard<Mutex>;
using UniqueLock = std::unique_lock<Mutex>;

}  // namespace weft
