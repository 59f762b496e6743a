// SPDX-License-Identifier: BSD-2-Clause
// Deadlines: the timeouts of blocking calls.
#include "base/deadline.h"

#include <gtest/gtest.h>

#include <climits>

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, NegativeNeverExpiresAndZeroExpiresAtOnce) {
  EXPECT_TRUE(Deadline().infinite());
  EXPECT_TRUE(Deadline::in_ms(-1).infinite());
  EXPECT_EQ(Deadline::in_ms(-1).remaining_ms(), -1);
  EXPECT_FALSE(Deadline::in_ms(-1).expired());
  EXPECT_TRUE(Deadline::in_ms(0).expired());
  EXPECT_EQ(Deadline::in_ms(0).remaining_ms(), 0);
}

TEST(Deadline, RemainingTimeIsRoundedUpAndBounded) {
  Clock::time_point end;
  int remaining = 0;
  do {  // again if the thread was preempted for longer than that
    end = Clock::now() + 100us;
    remaining = Deadline(end).remaining_ms();
  } while (Clock::now() >= end);
  EXPECT_EQ(remaining, 1) << "poll() must not spin through the last millisecond";
  EXPECT_EQ(Deadline(Clock::now() - 1s).remaining_ms(), 0);
  EXPECT_EQ(Deadline(Clock::now() + std::chrono::hours(24 * 365)).remaining_ms(), INT_MAX);
  EXPECT_GT(Deadline::in_ms(INT_MAX).remaining_ms(), INT_MAX - 1000);
}

TEST(Deadline, LimitOfZeroNeverExpiresEvenIfPostponed) {
  const auto start = Clock::now();
  Deadline limited = Deadline::after(start, 2s), unlimited = Deadline::after(start, 0s);
  limited.postpone(1s);
  unlimited.postpone(1s);
  EXPECT_EQ(limited.time(), start + 3s);
  EXPECT_TRUE(unlimited.infinite());
}

TEST(Deadline, OrdersByTime) {
  EXPECT_LT(Deadline::in_ms(1000), Deadline());
}

}  // namespace
}  // namespace weft
