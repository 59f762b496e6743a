// SPDX-License-Identifier: BSD-2-Clause
// Bursts of short messages share a system call only if their sender calls for progress soon; docs/decisions/0001.
#include <gtest/gtest.h>

#include "sim/network.h"
#include "sim/pair.h"

namespace weft::tcp::sim {
namespace {

using namespace std::chrono_literals;
using testing::Done;

constexpr int kLearned = 4;  // bursts

class Bursts : public ::testing::Test {
 protected:
  void inject(int count = 1) {
    for (int i = 0; i < count; ++i) {
      pair_.receive(received_);
      ASSERT_EQ(fi_inject(pair_.client.ep, "beat", 4, FI_ADDR_UNSPEC), 0);
      ++injected_;
    }
  }
  // The server reads all messages that have left the client.
  int arrived() {
    Done done;
    for (int i = 0; i < kQuiet; ++i)
      while (pair_.server.poll(done)) ++arrived_;
    return arrived_;
  }
  void burst(Clock::duration until_progress = {}) {
    inject(3);
    advance(until_progress);
    Done done;
    pair_.client.poll(done);
  }
  void learn(int bursts = kLearned) {
    for (int i = 0; i < bursts; ++i) burst();
    ASSERT_EQ(arrived(), injected_);
  }
  bool messages_wait() {
    inject(3);
    return arrived() < injected_;
  }

  Pair pair_;
  std::string received_ = "----";
  int injected_ = 0;
  int arrived_ = 0;
};

// A program that injects needs no completions, so it may never read a queue.
TEST_F(Bursts, MessagesOfASenderWithoutProgressLeaveAtOnce) {
  for (int i = 0; i < 10; ++i) {
    inject();
    EXPECT_EQ(arrived(), injected_);
    advance(1s);
  }
  inject(10);
  EXPECT_EQ(arrived(), injected_);
}

TEST_F(Bursts, APromptSenderSharesCalls) {
  learn();
  const std::size_t before = transfers();
  inject(50);
  Done done;
  pair_.client.poll(done);
  const std::size_t calls = transfers() - before;
  EXPECT_EQ(calls, 2u);  // the first message leaves alone
  EXPECT_EQ(arrived(), injected_);
}

// A long burst leaves in parts, and each part is as prompt as the first.
TEST_F(Bursts, AFullBatchLeavesAndTheHabitStays) {
  learn();
  Done done;
  const std::string sent(2048, 's');
  for (int round = 0; round < 3; ++round) {
    std::string received(sent.size(), '-');
    const std::size_t before = transfers();
    for (int i = 0; i < 24; ++i) {
      pair_.receive(received);
      pair_.send(sent);
    }
    EXPECT_LE(transfers() - before, 4u) << round;
    pair_.client.poll(done);
    for (int i = 0; i < kQuiet; ++i) {
      pair_.client.poll(done);
      pair_.server.poll(done);
    }
    EXPECT_EQ(received, sent);
  }
}

// A prompt sender stops to call for progress: its next message takes the waiting ones along, and later ones do not
// wait.
TEST_F(Bursts, APromptSenderThatStopsIsNoticedAtItsNextMessage) {
  learn();
  inject(3);
  EXPECT_LT(arrived(), injected_);
  advance(1s);
  inject();
  EXPECT_EQ(arrived(), injected_);
  inject(5);
  EXPECT_EQ(arrived(), injected_);
}

// Likewise if it calls for progress, but late.
TEST_F(Bursts, ASenderThatComesBackLateIsNoticed) {
  learn();
  burst(50us);
  EXPECT_EQ(arrived(), injected_);
  EXPECT_FALSE(messages_wait());
}

// The system takes the processor away now and then.
TEST_F(Bursts, ARareInterruptionChangesNothing) {
  learn(2 * kLearned);
  burst(50us);
  burst();
  EXPECT_TRUE(messages_wait());
}

TEST_F(Bursts, InterruptionsThatAreNotRareAreNoticed) {
  learn(2 * kLearned);
  burst(50us);
  burst(50us);
  EXPECT_FALSE(messages_wait());
}

TEST_F(Bursts, ALongPauseIsNoInterruption) {
  learn(2 * kLearned);
  burst(1ms);
  EXPECT_FALSE(messages_wait());
}

}  // namespace
}  // namespace weft::tcp::sim
