// SPDX-License-Identifier: BSD-2-Clause
// The statistics of fi_mcast's numbered messages; see sequence_log.h.
#include "tools/sequence_log.h"

#include <gtest/gtest.h>

#include <memory>

namespace weft::tools {
namespace {

class SequenceLogTest : public testing::Test {
 protected:
  void receive(std::initializer_list<uint64_t> numbers, uint64_t total = 0) {
    for (uint64_t number : numbers) {
      Stamp stamp;
      stamp.sequence = number;
      stamp.total = total;
      stamp.sent_ns = clock - 1000;
      log.record(stamp, 100, clock++);
    }
  }
  uint64_t clock = 1'000'000;
  SequenceLog log;
};

TEST_F(SequenceLogTest, OrderedMessagesAreComplete) {
  receive({0, 1, 2, 3}, 4);
  EXPECT_EQ(log.received(), 4u);
  EXPECT_EQ(log.lost(true), 0u);
  EXPECT_EQ(log.bytes(), 400u);
  EXPECT_TRUE(log.complete());
  EXPECT_EQ(log.latencies().min(), 1000u);
}

TEST_F(SequenceLogTest, GapsCountAsLost) {
  receive({0, 1, 5, 6});
  EXPECT_EQ(log.lost(false), 3u);
  EXPECT_EQ(log.reordered(), 0u);
}

TEST_F(SequenceLogTest, LateMessagesFillTheirGap) {
  receive({0, 3, 1, 2});
  EXPECT_EQ(log.lost(false), 0u);
  EXPECT_EQ(log.reordered(), 2u);
  EXPECT_EQ(log.repeated(), 0u);
}

TEST_F(SequenceLogTest, RepetitionsAreNotCountedTwice) {
  receive({0, 1, 1, 2, 0});
  EXPECT_EQ(log.received(), 3u);
  EXPECT_EQ(log.repeated(), 2u);
  EXPECT_EQ(log.reordered(), 0u);
}

TEST_F(SequenceLogTest, MissingTailCountsAsLostOnceFinished) {
  receive({0, 1, 2}, 10);
  EXPECT_FALSE(log.complete());
  EXPECT_EQ(log.lost(false), 0u);
  EXPECT_EQ(log.lost(true), 7u);
}

TEST_F(SequenceLogTest, LateReceiverCountsNoEarlierLoss) {
  receive({100, 101, 99, 103});
  EXPECT_EQ(log.lost(false), 1u);
}

TEST_F(SequenceLogTest, LongGapForgetsOldNumbers) {
  receive({0, 1, 2, 200'000});
  receive({200'000 - 65'536 + 1});  // shares a place in the window with numbers seen before
  EXPECT_EQ(log.repeated(), 0u);
  EXPECT_EQ(log.received(), 5u);
  EXPECT_EQ(log.lost(false), 200'001u - 5);
}

TEST(StampTest, BytesRoundTripAndForeignBytesAreRejected) {
  std::byte bytes[Stamp::kSize];
  Stamp out, in;
  out.run = 1, out.sequence = 2, out.sent_ns = 3, out.total = 4;
  out.store(bytes);
  ASSERT_TRUE(in.load(bytes, sizeof bytes));
  EXPECT_EQ(in.run, 1u);
  EXPECT_EQ(in.sequence, 2u);
  EXPECT_EQ(in.sent_ns, 3u);
  EXPECT_EQ(in.total, 4u);
  EXPECT_FALSE(in.load(bytes, sizeof bytes - 1));
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(in.load(bytes, sizeof bytes));
}

}  // namespace
}  // namespace weft::tools
