// SPDX-License-Identifier: BSD-2-Clause
// Learning whether an application that posts bursts of long messages calls for progress at once.
#include "tcp/engine.h"

#include <gtest/gtest.h>

namespace weft::tcp {
namespace {

using namespace std::chrono_literals;

class ProgressHabitTest : public ::testing::Test {
 protected:
  void burst(Clock::duration until_progress) {
    progress_habit_.posted(now_);
    EXPECT_TRUE(progress_habit_.pending());
    now_ += until_progress;
    progress_habit_.came_back(now_);
    EXPECT_FALSE(progress_habit_.pending());
    now_ += 1s;  // time between bursts does not count
  }
  Clock::time_point now_{1h};
  ProgressHabit progress_habit_;
};

TEST_F(ProgressHabitTest, IsLearnedFromSeveralBursts) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(progress_habit_.holds()) << i;
    burst(1us);
  }
  EXPECT_TRUE(progress_habit_.holds());
  burst(10us);
  EXPECT_TRUE(progress_habit_.holds());
}

TEST_F(ProgressHabitTest, OneLateReturnResetsTheLearning) {
  for (int i = 0; i < 100; ++i) burst(1us);
  burst(11us);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(progress_habit_.holds()) << i;
    burst(1us);
  }
  EXPECT_TRUE(progress_habit_.holds());
}

TEST_F(ProgressHabitTest, CountsFromTheLastMessageOfABurst) {
  for (int i = 0; i < 4; ++i) {
    progress_habit_.posted(now_);
    now_ += 1ms;  // time within the burst does not count
    burst(1us);
  }
  EXPECT_TRUE(progress_habit_.holds());
}

}  // namespace
}  // namespace weft::tcp
