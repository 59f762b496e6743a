// SPDX-License-Identifier: BSD-2-Clause
// kfi_shutdown while messages go both ways, kfi_cm(3): sends wait for receives that are posted later, so that each call
// finds some messages delivered, some under way and some queued.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "half_shutdown.h"

namespace {

constexpr size_t kLen = 50000;  // bytes of a message
constexpr size_t kMessages = 60;
constexpr size_t kReceives = 8;  // posted at each end before the calls

struct Calls {
  const char* name;
  std::vector<uint64_t> flags;
};

std::string name_of(const testing::TestParamInfo<Calls>& calls) {
  return calls.param.name;
}

// Each end sends from the first half of its memory and receives into the second.
class InFlight : public HalfShutdown, public testing::WithParamInterface<Calls> {
 protected:
  // The completions of one end.
  struct Tally {
    size_t sent = 0, received = 0;  // without an error
    size_t unsent = 0, unreceived = 0;
    size_t all() const { return sent + received + unsent + unreceived; }
  };

  InFlight() : HalfShutdown(4 * kMessages * kLen) {
    for (int end : {0, 1}) {
      for (size_t i = 0; i < kMessages; i++) memset(room(end, i * kLen), value(end, i), kLen);
      while (posted[end] < kReceives) EXPECT_EQ(post(end), 0);
    }
    for (int end : {0, 1}) {
      ssize_t result = 0;
      for (; queued[end] < kMessages && result == 0; queued[end] += result == 0) {
        char* const from = room(end, queued[end] * kLen);
        result = send(end, kLen, from, queued[end] * kLen);
      }
      EXPECT_TRUE(result == 0 || result == -KFI_EAGAIN) << result;
      EXPECT_GT(queued[end], kReceives) << "no message is queued";
    }
  }
  static int value(int end, size_t i) { return static_cast<int>(2 * i + end + 1); }
  // The next receive.
  ssize_t post(int end) {
    const size_t at = (kMessages + posted[end]) * kLen;
    const ssize_t result = receive(end, kLen, room(end, at), at);
    if (result == 0) posted[end]++;
    return result;
  }
  // Counts the next completion; false: none is there. Messages arrive whole and in order.
  bool take(int end) {
    const char* const receives = room(end, kMessages * kLen);
    kfi_cq_tagged_entry entry{};
    const ssize_t count = kfi_cq_read(pair.cq(end), &entry, 1);
    if (count == 1 && entry.op_context >= receives) {
      const char* const at = static_cast<char*>(entry.op_context);
      const char wanted = static_cast<char>(value(1 - end, tally[end].received));
      EXPECT_EQ(at, receives + tally[end].received++ * kLen);
      EXPECT_EQ(entry.len, kLen);
      EXPECT_EQ(std::count(at, at + kLen, wanted), static_cast<long>(kLen)) << "message " << tally[end].received;
    } else if (count == 1) {
      EXPECT_EQ(entry.op_context, room(end, tally[end].sent++ * kLen));
    } else if (count == -KFI_EAVAIL) {
      kfi_cq_err_entry error{};
      EXPECT_EQ(kfi_cq_readerr(pair.cq(end), &error, 0), 1);
      EXPECT_TRUE(end != closer || error.err == KFI_ECANCELED) << kfi_strerror(error.err);
      ++(error.op_context >= receives ? tally[end].unreceived : tally[end].unsent);
    } else {
      EXPECT_EQ(count, -KFI_EAGAIN);
      return false;
    }
    return true;
  }
  void take_all(int end) {
    while (take(end)) {
    }
  }
  // All messages of the sender arrive, and their sends complete.
  void expect_all_from(int sender) {
    const int receiver = 1 - sender;
    EXPECT_TRUE(becomes([&] {
      for (int end : {0, 1}) take_all(end);
      while (posted[receiver] < queued[sender]) EXPECT_EQ(post(receiver), 0);
      return tally[receiver].received == queued[sender] && tally[sender].sent == queued[sender];
    })) << tally[receiver].received
        << " received, " << tally[sender].sent << " sent";
    EXPECT_EQ(tally[sender].unsent, 0u);
  }
  // Each operation of the end that shut down has completed, and those of its peer do so. The peer has a first part of
  // the messages, and one event behind them.
  void expect_full_shutdown() {
    const int peer = 1 - closer;
    take_all(closer);
    EXPECT_EQ(tally[closer].all(), posted[closer] + queued[closer]) << "not before the call returned";
    EXPECT_TRUE(becomes([&] {
      take_all(peer);
      if (posted[peer] < queued[closer]) post(peer);  // fails from the end of the connection on
      return tally[peer].all() == posted[peer] + queued[peer];
    })) << tally[peer].all()
        << " of " << posted[peer] + queued[peer];
    expect_shutdown(peer);
    expect_no_event(peer);
    for (int end : {0, 1}) {
      take_all(end);
      EXPECT_EQ(tally[end].all(), posted[end] + queued[end]) << "a second completion";
      EXPECT_EQ(tally[end].sent + tally[end].unsent, queued[end]);
    }
    EXPECT_LE(tally[peer].received, queued[closer]);
  }
  void call_all() {
    for (uint64_t flags : GetParam().flags) ASSERT_EQ(kfi_shutdown(pair.ep(0), flags), 0) << flags;
  }

  size_t posted[2] = {}, queued[2] = {};
  int closer = 0;  // the end that shuts down
  Tally tally[2];
};

// ---- The transmit half ----------------------------------------------------------------------------------------------

using WriteHalf = InFlight;

TEST_P(WriteHalf, NoMessageIsLostInEitherDirection) {
  call_all();
  EXPECT_EQ(send(0, 1), -KFI_ESHUTDOWN);
  expect_all_from(0);
  if (has_all()) expect_shutdown(1);
  expect_all_from(1);
  for (int end : {0, 1}) expect_no_event(end);
}

INSTANTIATE_TEST_SUITE_P(Calls, WriteHalf,
                         testing::Values(Calls{"Once", {KFI_WRITE}}, Calls{"Twice", {KFI_WRITE, KFI_WRITE}}), name_of);

// Threads send until the call of another thread ends that: each message that was taken arrives, and none behind the
// event.
TEST(Senders, NoMessageFollowsTheEvent) {
  if (!has_all()) GTEST_SKIP() << "the peer is told by weft's tcp only";
  for (int round = 0; round < 10; round++) {
    Connected pair;
    std::atomic<int> taken{0};
    int arrived = 0;
    char rooms[64];
    for (char& room : rooms) ASSERT_EQ(kfi_recv(pair.ep(1), &room, 1, nullptr, 0, &room), 0);
    std::thread threads[3];
    for (std::thread& thread : threads) {
      thread = std::thread([&] {
        ssize_t result = 0;
        for (char byte = 0; result == 0 || result == -KFI_EAGAIN; taken += result == 0) {
          result = kfi_inject(pair.ep(0), &byte, 1, 0);
          if (result != 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        EXPECT_EQ(result, -KFI_ESHUTDOWN);
      });
    }
    const auto take_all = [&] {
      kfi_cq_tagged_entry entry;
      while (kfi_cq_read(pair.cq(1), &entry, 1) == 1) {
        arrived++;
        EXPECT_EQ(kfi_recv(pair.ep(1), entry.op_context, 1, nullptr, 0, entry.op_context), 0);
      }
    };
    std::thread closer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(80 * round));
      EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), 0);
    });
    EXPECT_TRUE(becomes([&] {
      uint32_t event;
      union event entry;
      take_all();
      return kfi_eq_read(pair.eq(1), &event, &entry, sizeof entry, 0) > 0;
    }));
    take_all();
    for (std::thread& thread : threads) thread.join();
    closer.join();
    EXPECT_EQ(arrived, taken) << "round " << round;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    take_all();
    EXPECT_EQ(arrived, taken) << "behind the event";
  }
}

// ---- The receive half -----------------------------------------------------------------------------------------------

using ReadHalf = InFlight;

TEST_P(ReadHalf, ReceivesEndAtOnceAndNoSenderIsHeldUp) {
  if (!has_all()) GTEST_SKIP() << "KFI_READ is not supported";
  call_all();
  take_all(0);
  EXPECT_EQ(tally[0].received + tally[0].unreceived, kReceives) << "not before the call returned";
  const size_t received = tally[0].received;
  expect_all_from(0);
  EXPECT_TRUE(becomes([&] { return take_all(1), tally[1].sent == queued[1]; })) << tally[1].sent;
  take_all(0);
  EXPECT_EQ(tally[0].received, received);
  EXPECT_EQ(tally[1].unsent, 0u);
  for (int end : {0, 1}) expect_no_event(end);
}

INSTANTIATE_TEST_SUITE_P(Calls, ReadHalf,
                         testing::Values(Calls{"Once", {KFI_READ}}, Calls{"Twice", {KFI_READ, KFI_READ}}), name_of);

// ---- Both halves ----------------------------------------------------------------------------------------------------

using FullShutdown = InFlight;

TEST_P(FullShutdown, EachOperationCompletesOnce) {
  if (!has_all() && GetParam().flags.front() == KFI_READ) GTEST_SKIP() << "KFI_READ is not supported";
  uint64_t shut = 0;
  for (uint64_t flags : GetParam().flags) shut |= flags;
  call_all();
  EXPECT_EQ(send(0, 1), shut & KFI_WRITE ? -KFI_ESHUTDOWN : -KFI_ENOTCONN);
  expect_full_shutdown();
}

INSTANTIATE_TEST_SUITE_P(Calls, FullShutdown,
                         testing::Values(Calls{"NoHalf", {0}}, Calls{"BothFlags", {KFI_READ | KFI_WRITE}},
                                         Calls{"WriteThenRead", {KFI_WRITE, KFI_READ}},
                                         Calls{"ReadThenWrite", {KFI_READ, KFI_WRITE}},
                                         Calls{"WriteThenNoHalf", {KFI_WRITE, 0}},
                                         Calls{"ReadThenNoHalf", {KFI_READ, 0}}),
                         name_of);

// ---- Refused calls --------------------------------------------------------------------------------------------------

using Refused = InFlight;

TEST_P(Refused, TrafficGoesOn) {
  for (uint64_t flags : GetParam().flags) EXPECT_EQ(kfi_shutdown(pair.ep(0), flags), -KFI_EBADFLAGS) << flags;
  for (int end : {0, 1}) expect_all_from(end);
  for (int end : {0, 1}) expect_no_event(end);
}

INSTANTIATE_TEST_SUITE_P(Calls, Refused, testing::Values(Calls{"BadBits", {KFI_SEND, KFI_WRITE | KFI_PEEK, 1}}),
                         name_of);

using PeerClosed = InFlight;

TEST_P(PeerClosed, HalvesAreRefusedAndEachOperationHasCompleted) {
  closer = 1;
  ASSERT_EQ(kfi_shutdown(pair.ep(1), 0), 0);
  expect_full_shutdown();
  for (uint64_t half : GetParam().flags) EXPECT_EQ(kfi_shutdown(pair.ep(0), half), -KFI_ENOTCONN);
}

INSTANTIATE_TEST_SUITE_P(Calls, PeerClosed, testing::Values(Calls{"BothHalves", {KFI_WRITE, KFI_READ}}), name_of);

}  // namespace
