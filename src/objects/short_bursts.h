// SPDX-License-Identifier: BSD-2-Clause
// Whether short messages of a burst may wait for each other and share a system call: only if the application always
// calls for progress soon, as its past bursts show (docs/decisions/0001). The caller holds the engine's mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/readiness.h"

namespace weft {

class ShortBursts {
 public:
  // A message was posted that is not the first of its burst. Whether it may wait for the next call for progress. If
  // not, sent() follows.
  bool may_wait() noexcept {
    if (trust_ < kTrusted) return false;
    if (waiting_ == 0) {
      since_ = net::now();
      tick_ = net::tick();
    } else if (net::tick() != tick_) {  // the application may never call for progress
      end();
      return false;
    }
    ++waiting_;
    return true;
  }
  // Called after the system call, so that its time does not count.
  void sent() noexcept {
    if (trust_ >= kTrusted) return;
    since_ = net::now();
    learns_.store(true, std::memory_order_relaxed);
  }
  // The application calls for progress, or enough messages wait: they leave.
  void end() noexcept {
    if (waiting_ != 0 || learns()) judge(net::now() - since_);
  }
  // Whether the next call for progress ends a measurement, and so must reach end(), even if every message that was sent
  // has its completion. For any thread.
  bool learns() const noexcept { return learns_.load(std::memory_order_relaxed); }

 private:
  void judge(Clock::duration delay) noexcept {
    if (delay <= kAtOnce + waiting_ * kToPost)
      trust_ = std::min(trust_ + 1, kMostTrust);
    else
      trust_ = delay <= kInterruption ? std::max(trust_ - kTrusted, 0) : 0;
    waiting_ = 0;
    learns_.store(false, std::memory_order_relaxed);
  }

  static constexpr int kTrusted = 4, kMostTrust = 2 * kTrusted;                     // prompt bursts
  static constexpr Clock::duration kAtOnce = std::chrono::microseconds(10);         // from the first message that waits
  static constexpr Clock::duration kToPost = std::chrono::nanoseconds(200);         // each of the others
  static constexpr Clock::duration kInterruption = std::chrono::microseconds(500);  // rare: the thread was stopped

  int trust_ = 0;
  unsigned waiting_ = 0;
  Clock::time_point since_{};
  std::int64_t tick_ = 0;  // the coarse clock at that time: reading the exact one costs too much for each message
  std::atomic<bool> learns_{false};
};

}  // namespace weft
