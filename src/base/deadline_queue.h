// SPDX-License-Identifier: BSD-2-Clause
// Deadlines of many items behind one timer: queues of items in the order of their deadlines, and a descriptor that
// becomes readable when the first of any queue may have passed.
//
// An item has one deadline at most. It leaves its queue with cancel(), or by unlinking its hook when it is destroyed.
// Not thread-safe: the owner's mutex guards them.
#pragma once

#include "base/deadline.h"
#include "base/list.h"
#include "base/readiness.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace weft {

class DeadlineTimer {
 public:
  // Called before a queue gets a deadline.
  Status open() noexcept {
    const int fd = net::timer_open();
    if (fd < 0) return Status(fd);
    timer_.reset(fd);
    return Status();
  }
  // For an epoll set.
  int fd() const noexcept { return timer_.get(); }

  // Expires at `at`, or earlier. The timer is never disarmed and seldom moved: a needless expiry costs less than a
  // system call for each deadline.
  void arm(Clock::time_point at) noexcept {
    if (at >= armed_) return;
    armed_ = at;
    net::timer_arm(timer_.get(), at);
  }
  bool passed(Clock::time_point now) const noexcept { return armed_ <= now; }
  // Called once fd() is readable, before run() of each queue.
  void drain() noexcept {
    net::timer_drain(timer_.get());
    armed_ = Clock::time_point::max();
  }

 private:
  UniqueFd timer_;
  Clock::time_point armed_ = Clock::time_point::max();
};

// `At` is the member of T that holds the deadline, `Tag` the list hook.
template <class T, class Tag, Clock::time_point T::*At>
class DeadlineQueue {
 public:
  // The timer may be shared with other queues.
  explicit DeadlineQueue(DeadlineTimer& timer) noexcept : timer_(timer) {}

  // Replaces the deadline that the item has, if any.
  void set(T& item, Clock::time_point at) noexcept {
    cancel(item);
    item.*At = at;
    // Deadlines mostly come in ascending order (one timeout for all), so the search starts at the back.
    List<T, Tag> later;
    while (!items_.empty() && items_.back().*At > at) {
      T& last = items_.back();
      cancel(last);
      later.push_front(last);
    }
    items_.push_back(item);
    items_.splice_back(later);
    timer_.arm(at);
  }
  static void cancel(T& item) noexcept { List<T, Tag>::unlink(item); }

  // Takes out the items whose deadline has passed at `now`, one by one, and passes each to `passed`, which may destroy
  // it, set deadlines and cancel others.
  template <class Passed>
  void run(Clock::time_point now, Passed passed) noexcept {
    while (!items_.empty() && items_.front().*At <= now) passed(items_.pop_front());
    if (!items_.empty()) timer_.arm(items_.front().*At);
  }

 private:
  DeadlineTimer& timer_;
  List<T, Tag> items_;  // earliest first
};

}  // namespace weft
