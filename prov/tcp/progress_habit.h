// SPDX-License-Identifier: BSD-2-Clause
// Whether an application calls for progress as soon as it has posted a burst of long messages. Learned from its past
// bursts: only then may such messages wait for each other (docs/decisions/0001). Callers pass the time in.
#pragma once

#include <atomic>

#include "base/deadline.h"

namespace weft::tcp {

class ProgressHabit {
 public:
  // The last bursts were all followed by a call for progress at once.
  bool holds() const noexcept { return prompt_bursts_ == kBursts; }
  // A long message that is not the first of its burst was posted.
  void posted(Clock::time_point now) noexcept {
    posted_ = now;
    pending_.store(true, std::memory_order_relaxed);
  }
  // The application has made no progress since. For any thread.
  bool pending() const noexcept { return pending_.load(std::memory_order_relaxed); }
  void came_back(Clock::time_point now) noexcept {
    prompt_bursts_ = now - posted_ > kAtOnce ? 0 : prompt_bursts_ + !holds();
    pending_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned kBursts = 4;
  static constexpr Clock::duration kAtOnce = std::chrono::microseconds(10);

  Clock::time_point posted_{};
  unsigned prompt_bursts_ = 0;
  std::atomic<bool> pending_{false};
};

}  // namespace weft::tcp
