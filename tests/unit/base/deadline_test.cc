// SPDX-License-Identifier: BSD-2-Clause
// Deadlines: the timeouts of blocking calls.
#include "base/deadline.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, NegativeNeverExpiresAndZeroExpiresAtOnce) {
  EXPECT_TRUE(Deadline().infinite());
  EXPECT_TRUE(Deadline::in_ms(-1).infinite());
  EXPECT_FALSE(Deadline::in_ms(-1).expired());
  EXPECT_TRUE(Deadline::in_ms(0).expired());
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
