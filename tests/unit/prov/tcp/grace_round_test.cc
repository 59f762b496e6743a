// SPDX-License-Identifier: BSD-2-Clause
// Messages that arrive before their receives: which wait for the next round, and for how long.
#include "tcp/grace_round.h"

#include <gtest/gtest.h>

namespace weft::tcp {
namespace {

constexpr std::size_t kLong = 4096, kShort = 100;

TEST(GraceRound, MessagesWaitForOneRound) {
  GraceRound grace;
  EXPECT_TRUE(grace.may_wait(kLong, 7));
  EXPECT_TRUE(grace.may_wait(kLong, 7));  // looked at again
  EXPECT_FALSE(grace.may_wait(kLong, 8));
  EXPECT_FALSE(grace.may_wait(kLong, 8));  // the messages behind it
}

TEST(GraceRound, ALaterMessageWaitsAgain) {
  GraceRound grace;
  EXPECT_TRUE(grace.may_wait(kLong, 7));
  EXPECT_FALSE(grace.may_wait(kLong, 8));
  EXPECT_TRUE(grace.may_wait(kLong, 9));
  EXPECT_TRUE(grace.may_wait(kLong, 20));
}

TEST(GraceRound, AReceiveRenewsIt) {
  GraceRound grace;
  EXPECT_TRUE(grace.may_wait(kLong, 7));
  grace.restart();
  EXPECT_TRUE(grace.may_wait(kLong, 8));
  EXPECT_FALSE(grace.may_wait(kLong, 9));
}

TEST(GraceRound, ShortMessagesAreStoredAtOnce) {
  GraceRound grace;
  EXPECT_FALSE(grace.may_wait(kShort, 7));
}

}  // namespace
}  // namespace weft::tcp
