// SPDX-License-Identifier: BSD-2-Clause
// Notices and acknowledgements in shared memory: none is lost or taken twice, and a process without the proof does no
// harm. The owner and its peer are the same process, except where a test needs two.
#include "rxm/local/notice_board.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <thread>

namespace weft::rxm {
namespace {

constexpr Proof kProof{1, 2, 3};
constexpr Proof kOther{4};

RendezvousPacket notice_of(std::uint64_t message) {
  RendezvousPacket notice;
  notice.header.control.message = message;
  notice.rendezvous.ranges[3].key = ~message;
  notice.direct.places[3] = message + 1;
  return notice;
}

class NoticeBoardTest : public ::testing::Test {
 protected:
  NoticeBoardTest() {
    EXPECT_TRUE(board_.open().ok());
    slot_ = board_.take_slot();
    board_.mark(slot_, kProof);
    EXPECT_TRUE(peer_.open(::getpid(), board_.descriptor(), slot_).ok());
  }

  bool put(std::uint64_t number) { return peer_.put_notice(number, kProof, notice_of(number + 7)); }
  // Whether the notice is there, with all its contents.
  bool take(std::uint64_t number) {
    RendezvousPacket found;
    if (!board_.take_notice(slot_, number, found)) return false;
    const RendezvousPacket expected = notice_of(number + 7);
    EXPECT_EQ(std::memcmp(&found, &expected, sizeof found), 0);
    return true;
  }

  NoticeBoard board_;
  PeerBoard peer_;
  std::uint8_t slot_ = kNoSlot;
};

TEST_F(NoticeBoardTest, NoticesAreTakenOnceAndInOrder) {
  EXPECT_FALSE(board_.has_news());
  EXPECT_FALSE(take(0));
  std::uint64_t put_up = 0;
  while (put(put_up)) ++put_up;
  EXPECT_GE(put_up, 2u);
  EXPECT_TRUE(board_.has_news());
  EXPECT_EQ(board_.take_news(), std::uint64_t{1} << slot_);
  EXPECT_FALSE(board_.has_news());
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(take(i));
    EXPECT_FALSE(take(i));
    EXPECT_TRUE(put(put_up + i));
  }
}

TEST_F(NoticeBoardTest, AcknowledgementsAreTakenOnce) {
  EXPECT_EQ(board_.take_done(slot_), 0u);
  std::set<std::uint64_t> sent, taken;
  for (std::uint64_t message = 1; peer_.put_done(message); ++message) sent.insert(message);
  EXPECT_GE(sent.size(), 8u);
  EXPECT_TRUE(board_.has_news());
  while (const std::uint64_t message = board_.take_done(slot_)) EXPECT_TRUE(taken.insert(message).second);
  EXPECT_EQ(taken, sent);
  EXPECT_TRUE(peer_.put_done(1));
}

TEST_F(NoticeBoardTest, OwnerPublishesPacketsReceivedAndPeerMarksItsSlotUsed) {
  EXPECT_EQ(peer_.received(), 0u);
  board_.publish_received(slot_, 5);
  EXPECT_EQ(peer_.received(), 5u);
  EXPECT_FALSE(board_.is_used(slot_));
  peer_.use();
  EXPECT_TRUE(board_.is_used(slot_));
}

TEST_F(NoticeBoardTest, SleeperNeedsAWakeupAndSeesEarlierNews) {
  EXPECT_FALSE(peer_.owner_sleeps());
  ASSERT_TRUE(put(0));
  board_.expect_sleepers();
  EXPECT_TRUE(board_.has_news());
  EXPECT_TRUE(peer_.owner_sleeps());
}

TEST_F(NoticeBoardTest, SleeperFromBeforeOpenNeedsAWakeupToo) {
  NoticeBoard board;
  board.expect_sleepers();
  ASSERT_TRUE(board.open().ok());
  PeerBoard peer;
  ASSERT_TRUE(peer.open(::getpid(), board.descriptor(), board.take_slot()).ok());
  EXPECT_TRUE(peer.owner_sleeps());
}

TEST_F(NoticeBoardTest, OnlyTheSlotWithTheRightMarkIsOurs) {
  EXPECT_TRUE(peer_.is_ours(kProof));
  EXPECT_FALSE(peer_.is_ours(kOther));
  board_.mark(slot_, {});
  EXPECT_FALSE(peer_.is_ours(kProof));
  EXPECT_FALSE(peer_.is_ours({}));
}

// The peer of a closed connection may not know it yet.
TEST_F(NoticeBoardTest, EntriesOfASlotsLastPeerAreDropped) {
  ASSERT_TRUE(put(0));
  ASSERT_TRUE(peer_.put_done(9));
  board_.give_back(slot_);
  ASSERT_EQ(board_.take_slot(), slot_);
  EXPECT_EQ(board_.take_done(slot_), 0u);
  EXPECT_EQ(peer_.received(), 0u);
  board_.mark(slot_, kOther);
  RendezvousPacket found;
  EXPECT_FALSE(board_.take_notice(slot_, 0, found));
  ASSERT_TRUE(put(0));  // too late
  EXPECT_FALSE(board_.take_notice(slot_, 0, found));
  ASSERT_TRUE(peer_.put_notice(0, kOther, notice_of(1)));  // its place is free again
  EXPECT_TRUE(board_.take_notice(slot_, 0, found));
}

TEST_F(NoticeBoardTest, SlotsAreDistinctUntilAllAreTaken) {
  std::set<std::uint8_t> slots{slot_};
  while (slots.size() < NoticeBoard::kSlots) EXPECT_TRUE(slots.insert(board_.take_slot()).second);
  EXPECT_EQ(board_.take_slot(), kNoSlot);
  board_.give_back(17);
  EXPECT_EQ(board_.take_slot(), 17);
  PeerBoard last;
  ASSERT_TRUE(last.open(::getpid(), board_.descriptor(), NoticeBoard::kSlots - 1).ok());
  ASSERT_TRUE(last.put_done(1));
  EXPECT_EQ(board_.take_news(), std::uint64_t{1} << (NoticeBoard::kSlots - 1));
}

// Access to memory that a peer has truncated would raise SIGBUS.
TEST_F(NoticeBoardTest, SizeCannotChange) {
  EXPECT_NE(::ftruncate(board_.descriptor(), 0), 0);
  EXPECT_NE(::ftruncate(board_.descriptor(), 1 << 20), 0);
}

TEST_F(NoticeBoardTest, OtherDescriptorsAreRefused) {
  PeerBoard peer;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd in(ends[0]), out(ends[1]);
  EXPECT_FALSE(peer.open(::getpid(), in.get(), 0).ok());
  EXPECT_FALSE(peer.open(::getpid(), 1 << 20, 0).ok());
  EXPECT_FALSE(peer.open(::getpid(), board_.descriptor(), NoticeBoard::kSlots).ok());
  EXPECT_FALSE(peer.open(-1, board_.descriptor(), 0).ok());
  // The size is right, but not sealed.
  const off_t size = ::lseek(board_.descriptor(), 0, SEEK_END);
  const UniqueFd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), size), 0);
  EXPECT_FALSE(peer.open(::getpid(), loose.get(), 0).ok());
  ASSERT_EQ(::fcntl(loose.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_TRUE(peer.open(::getpid(), loose.get(), 0).ok());
  EXPECT_FALSE(peer.is_ours(kProof));
}

// Some systems add a seal of their own.
TEST_F(NoticeBoardTest, AdditionalSealsAreAccepted) {
  constexpr unsigned kNotExecutable = 0x0008;  // MFD_NOEXEC_SEAL, since Linux 6.3; it adds another seal
  const UniqueFd sealed(::memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNotExecutable));
  if (!sealed) GTEST_SKIP() << "the system has no other seal";
  ASSERT_EQ(::ftruncate(sealed.get(), ::lseek(board_.descriptor(), 0, SEEK_END)), 0);
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  PeerBoard peer;
  EXPECT_TRUE(peer.open(::getpid(), sealed.get(), 0).ok());
}

TEST_F(NoticeBoardTest, OutlivesItsOwner) {
  auto gone = std::make_unique<NoticeBoard>();
  ASSERT_TRUE(gone->open().ok());
  PeerBoard peer;
  ASSERT_TRUE(peer.open(::getpid(), gone->descriptor(), gone->take_slot()).ok());
  gone.reset();
  EXPECT_TRUE(peer.put_notice(0, kProof, notice_of(1)));
  EXPECT_TRUE(peer.put_done(1));
}

TEST_F(NoticeBoardTest, AnotherProcessReachesIt) {
  const pid_t owner = ::getpid();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    PeerBoard peer;
    const bool good = peer.open(owner, board_.descriptor(), slot_).ok() && peer.is_ours(kProof) &&
                      peer.put_notice(0, kProof, notice_of(7)) && peer.put_done(3);
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (status != 0) GTEST_SKIP() << "the system does not permit a child to take its parent's descriptors";
  EXPECT_TRUE(take(0));
  EXPECT_EQ(board_.take_done(slot_), 3u);
}

// A writer and a reader work at the same time, at full speed.
TEST_F(NoticeBoardTest, NoEntryIsLostBetweenTwoThreads) {
  constexpr std::uint64_t kMessages = 20'000;
  std::thread writer([this] {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      while (!put(i)) std::this_thread::yield();
      while (!peer_.put_done(i + 1)) std::this_thread::yield();
    }
  });
  std::uint64_t taken = 0, done = 0, sum = 0;
  while (taken < kMessages || done < kMessages) {
    if (!board_.has_news()) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(board_.take_news(), std::uint64_t{1} << slot_);
    while (taken < kMessages && take(taken)) ++taken;
    while (const std::uint64_t message = board_.take_done(slot_)) ++done, sum += message;
  }
  writer.join();
  EXPECT_EQ(sum, kMessages * (kMessages + 1) / 2);
  EXPECT_FALSE(take(kMessages));
}

}  // namespace
}  // namespace weft::rxm
