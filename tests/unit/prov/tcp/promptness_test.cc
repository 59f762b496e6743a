// SPDX-License-Identifier: BSD-2-Clause
// What is learned of an application that posts bursts of long messages: whether it comes back for progress at once.
#include "tcp/promptness.h"

#include <gtest/gtest.h>

namespace weft::tcp {
namespace {

using namespace std::chrono_literals;

class PromptnessTest : public ::testing::Test {
 protected:
  void burst(Clock::duration until_progress) {
    promptness_.posted(now_);
    EXPECT_TRUE(promptness_.pending());
    now_ += until_progress;
    promptness_.came_back(now_);
    EXPECT_FALSE(promptness_.pending());
    now_ += 1s;  // the application's own time between bursts has no say
  }
  Clock::time_point now_{1h};
  Promptness promptness_;
};

TEST_F(PromptnessTest, IsLearnedFromSeveralBursts) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(promptness_.holds()) << i;
    burst(1us);
  }
  EXPECT_TRUE(promptness_.holds());
  burst(10us);
  EXPECT_TRUE(promptness_.holds());
}

TEST_F(PromptnessTest, OneLateReturnEndsItAndItIsLearnedAnew) {
  for (int i = 0; i < 100; ++i) burst(1us);
  burst(11us);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(promptness_.holds()) << i;
    burst(1us);
  }
  EXPECT_TRUE(promptness_.holds());
}

TEST_F(PromptnessTest, CountsFromTheLastMessageOfABurst) {
  for (int i = 0; i < 4; ++i) {
    promptness_.posted(now_);
    now_ += 1ms;  // the calls themselves take as long as they take
    burst(1us);
  }
  EXPECT_TRUE(promptness_.holds());
}

}  // namespace
}  // namespace weft::tcp
