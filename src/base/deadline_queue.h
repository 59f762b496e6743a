// SPDX-License-Identifier: BSD-2-Clause
// Deadlines of many items behind one timer: the items of a list in the order of their deadlines, and a descriptor that
// becomes readable when the first may have passed.
//
// An item has one deadline at most. It leaves the queue with cancel(), or by unlinking its hook when it is destroyed.
// Not thread-safe: the owner's mutex guards it.
#pragma once

#include "base/deadline.h"
#include "base/list.h"
#include "base/readiness.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace weft {

// `At` is the member of T that holds the deadline, `Tag` the list hook.
template <class T, class Tag, Clock::time_point T::*At>
class DeadlineQueue {
 public:
  // Called before any other member.
  Status open() noexcept {
    const int fd = net::timer_open();
    if (fd < 0) return Status(fd);
    timer_.reset(fd);
    return Status();
  }
  // For an epoll set.
  int fd() const noexcept { return timer_.get(); }

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
    if (at < armed_) arm(at);
  }
  static void cancel(T& item) noexcept { List<T, Tag>::unlink(item); }

  // Called once fd() is readable: takes out the items whose deadline has passed at `now`, one by one, and passes each
  // to `passed`, which may destroy it, set deadlines and cancel others.
  template <class Passed>
  void run(Clock::time_point now, Passed passed) noexcept {
    net::timer_drain(timer_.get());
    armed_ = Clock::time_point::max();
    while (!items_.empty() && items_.front().*At <= now) passed(items_.pop_front());
    if (!items_.empty() && items_.front().*At < armed_) arm(items_.front().*At);
  }

 private:
  // The timer is never disarmed and seldom moved: a needless expiry costs less than a system call for each deadline.
  void arm(Clock::time_point at) noexcept {
    armed_ = at;
    net::timer_arm(timer_.get(), at);
  }

  UniqueFd timer_;
  Clock::time_point armed_ = Clock::time_point::max();
  List<T, Tag> items_;  // earliest first
};

}  // namespace weft
