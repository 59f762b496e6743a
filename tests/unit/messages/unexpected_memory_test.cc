// SPDX-License-Identifier: BSD-2-Clause
// The memory of unexpected messages: which peers wait for room, and when they go on; docs/limits.md.
#include "messages/unexpected_memory.h"

#include <gtest/gtest.h>

#include <chrono>
#include <list>

namespace weft::messages {
namespace {

constexpr std::size_t kLimit = 1000;

struct Peer : PeerMemory {
  explicit Peer(UnexpectedMemory& all) noexcept
      : PeerMemory([](PeerMemory& memory) noexcept { ++static_cast<Peer&>(memory).resumed; }) {
    enter(all);
  }
  int resumed = 0;
};

TEST(UnexpectedMemory, APeerWaitsUntilHalfOfItsShareIsFree) {
  UnexpectedMemory all(kLimit);
  Peer full(all), other(all);
  other.add(kLimit);
  full.add(kLimit / 2);
  ASSERT_FALSE(full.has_room(1));
  full.release(kLimit / 5);
  EXPECT_EQ(full.resumed, 0);
  other.release(kLimit / 10);
  EXPECT_EQ(full.resumed, 0) << "more than half of the limit is occupied";
  full.release(kLimit / 5);
  EXPECT_EQ(full.resumed, 1);
  other.release(kLimit - kLimit / 10);
  full.release(kLimit / 10);
}

TEST(UnexpectedMemory, APeerGoesOnWhenItsShareGrows) {
  UnexpectedMemory all(kLimit);
  Peer full(all), other(all), last(all);
  other.add(kLimit);
  last.add(1);
  full.add(kLimit / 3);
  ASSERT_FALSE(full.has_room(kLimit));
  full.release(kLimit / 10);
  ASSERT_EQ(full.resumed, 0);
  last.release(1);
  EXPECT_EQ(full.resumed, 1) << "two peers share the limit now, not three";
  other.release(kLimit);
  full.release(kLimit / 3 - kLimit / 10);
}

// Its message is longer than its share, and may fit now.
TEST(UnexpectedMemory, APeerThatOccupiesLittleGoesOnWithAnyRelease) {
  UnexpectedMemory all(kLimit);
  Peer empty(all), other(all);
  other.add(kLimit);
  ASSERT_FALSE(empty.has_room(kLimit));
  other.release(1);
  EXPECT_EQ(empty.resumed, 1);
  other.release(kLimit - 1);
}

TEST(UnexpectedMemory, AllGoOnWhenHalfOfTheLimitIsFree) {
  UnexpectedMemory all(kLimit);
  Peer full(all), other(all);
  other.add(kLimit);
  full.add(kLimit / 2);
  ASSERT_FALSE(full.has_room(1));
  other.release(kLimit - 1);
  EXPECT_EQ(full.resumed, 0);
  full.release(1);
  EXPECT_EQ(full.resumed, 1);
  full.release(kLimit / 2 - 1);
  other.release(1);
}

// Thousands of peers that wait, as those of a flood do, must not slow down each release.
TEST(UnexpectedMemory, ManyWaitingPeersDoNotSlowItDown) {
  constexpr std::size_t kPeers = 5000, kEach = 100;
  UnexpectedMemory all(kPeers * kEach);
  std::list<Peer> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    Peer& peer = peers.emplace_back(all);
    peer.add(2 * kEach);
    (void)peer.has_room(kPeers * kEach);
  }
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < 40; ++i)
    for (Peer& peer : peers) peer.release(1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300));
  for (Peer& peer : peers) {
    peer.release(2 * kEach - 40);
    peer.stop_waiting();
  }
}

}  // namespace
}  // namespace weft::messages
