// SPDX-License-Identifier: BSD-2-Clause
// Half shutdown of a connected endpoint, against a peer made of a plain socket: bytes on the wire, and messages that
// are arriving. The calls of kfabric are in tests/kfi.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <sys/socket.h>

#include <functional>
#include <numeric>

#include "base/unique_fd.h"
#include "tcp/connection/cm_message.h"
#include "tcp/stream/data_header.h"
#include "unit/prov/tcp/side.h"

namespace weft::tcp {
namespace {

using testing::Done;
using testing::Event;
using testing::kError;
using testing::Side;

DataHeader header_of(Op op, std::uint64_t payload = 0, bool acknowledged = false) {
  DataHeader header;
  header.op = op;
  header.payload = payload;
  if (acknowledged) header.flags = kFlagDeliveryComplete;
  return header;
}

// An endpoint that accepted a connection from a plain socket.
class HalfShutdown : public ::testing::Test {
 protected:
  void connect(bool announces) {
    side.listen();
    const sockaddr_storage to = side.listening_at();
    peer = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(peer.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in)), 0);
    CmMessage request;
    request.compose(CmType::kRequest, nullptr, 0);
    std::byte bytes[kCmHeaderSize];
    std::memcpy(bytes, request.unsent().data(), sizeof bytes);
    if (!announces) std::memset(bytes + 4, 0, 20);
    write(bytes, sizeof bytes);
    Event event;
    ASSERT_TRUE(drive([&] { return side.poll(event); }));
    side.accept(event);
    const int refuses = 1;
    ASSERT_EQ(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_REFUSE_AFTER_END, &refuses, sizeof refuses), 0);
    ASSERT_TRUE(drive([&] { return side.poll(event); }));
    ASSERT_EQ(event.number, static_cast<uint32_t>(FI_CONNECTED));
    ASSERT_EQ(read(kCmHeaderSize).size(), kCmHeaderSize);
  }
  int shut(uint64_t half) {
    void* table = nullptr;
    EXPECT_EQ(fi_open_ops(&side.ep->fid, "weft_half_shutdown_v1", 0, &table, nullptr), 0);
    return (*static_cast<int (**)(fid_ep*, uint64_t)>(table))(side.ep, half);
  }
  void write(const void* bytes, std::size_t len) {
    ASSERT_EQ(::send(peer.get(), bytes, len, MSG_NOSIGNAL), static_cast<ssize_t>(len));
  }
  void write(const DataHeader& header) {
    std::byte bytes[kMaxHeaderSize];
    write(bytes, encode(header, bytes));
  }
  // The next bytes from the endpoint.
  std::vector<std::byte> read(std::size_t len) {
    std::vector<std::byte> bytes(len);
    std::size_t have = 0;
    EXPECT_TRUE(drive([&] {
      const ssize_t got = ::recv(peer.get(), bytes.data() + have, len - have, MSG_DONTWAIT);
      if (got > 0) have += static_cast<std::size_t>(got);
      return have == len;
    }));
    return bytes;
  }
  // This peer ignores offers to share memory.
  DataHeader read_header() {
    auto bytes = read(kBaseHeaderSize);
    for (; static_cast<Op>(bytes[1]) == Op::kMailbox; bytes = read(kBaseHeaderSize))
      read(static_cast<std::size_t>(bytes[kHeaderSizeOffset]) - kBaseHeaderSize);
    return decode(bytes.data(), false).value_or(header_of(Op::kScarce));
  }
  // Until `condition` holds, or 20 seconds have passed.
  bool drive(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      fi_cq_read(side.cq, nullptr, 0);
    }
    return true;
  }
  Done next() {
    Done done;
    EXPECT_TRUE(drive([&] { return side.poll(done); }));
    return done;
  }
  void rounds() {
    Event event;
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(side.poll(event)) << event.number;
  }

  Side side;
  UniqueFd peer;
};

TEST_F(HalfShutdown, MarkerFollowsTheLastMessage) {
  connect(true);
  const char text[] = "abcdefg";
  for (int i = 0; i < 3; ++i) ASSERT_EQ(fi_send(side.ep, text, 7, nullptr, 0, nullptr), 0);
  ASSERT_EQ(shut(FI_WRITE), 0);
  for (int i = 0; i < 3; ++i) {
    const DataHeader header = read_header();
    EXPECT_EQ(header.op, Op::kMessage);
    EXPECT_EQ(header.payload, 7u);
    read(7);
  }
  EXPECT_EQ(read_header().op, Op::kHalfShutdown);
}

// Also if its call began before the half shutdown, on another thread.
TEST_F(HalfShutdown, NothingFollowsTheMarker) {
  connect(true);
  ASSERT_EQ(shut(FI_WRITE), 0);
  char bytes[5000] = "";
  for (const std::size_t len : {1, 5000}) {
    EXPECT_EQ(fi_send(side.ep, bytes, len, nullptr, 0, nullptr), -FI_ESHUTDOWN) << len;
    EXPECT_EQ(fi_write(side.ep, bytes, len, nullptr, 0, 0, 1, nullptr), -FI_ESHUTDOWN) << len;
  }
  EXPECT_EQ(fi_inject(side.ep, bytes, 1, 0), -FI_ESHUTDOWN);
  EXPECT_EQ(fi_read(side.ep, bytes, 1, nullptr, 0, 0, 1, nullptr), -FI_ESHUTDOWN);
  EXPECT_EQ(read_header().op, Op::kHalfShutdown);
  rounds();
  EXPECT_EQ(::recv(peer.get(), bytes, 1, MSG_DONTWAIT), -1);
}

TEST_F(HalfShutdown, PeerThatAnnouncedNothingGetsNoMarker) {
  connect(false);
  ASSERT_EQ(shut(FI_WRITE), 0);
  EXPECT_EQ(fi_inject(side.ep, "x", 1, 0), -FI_ESHUTDOWN);
  rounds();
  std::byte byte;
  EXPECT_EQ(::recv(peer.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(HalfShutdown, MarkerIsReportedOnce) {
  connect(true);
  for (int i = 0; i < 5; ++i) write(header_of(Op::kHalfShutdown));
  Event event;
  ASSERT_TRUE(drive([&] { return side.poll(event); }));
  EXPECT_EQ(event.number, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(event.fid, &side.ep->fid);
  ASSERT_EQ(fi_send(side.ep, "x", 1, nullptr, 0, nullptr), 0);
  EXPECT_EQ(read_header().payload, 1u);
  EXPECT_EQ(next().error, 0);
  peer.reset();
  char room;
  ASSERT_TRUE(drive([&] { return fi_recv(side.ep, &room, 1, nullptr, 0, nullptr) == -FI_ENOTCONN; }));
  Done done;
  while (side.poll(done)) EXPECT_EQ(done.error, FI_ECANCELED);
  rounds();
}

TEST_F(HalfShutdown, MarkerWithoutAnAgreementEndsTheConnection) {
  connect(false);
  write(header_of(Op::kHalfShutdown));
  char room;
  ASSERT_TRUE(drive([&] { return fi_recv(side.ep, &room, 1, nullptr, 0, nullptr) == -FI_ENOTCONN; }));
}

TEST_F(HalfShutdown, MarkerWithAPayloadIsMalformed) {
  std::byte bytes[kMaxHeaderSize];
  encode(header_of(Op::kHalfShutdown, 1), bytes);
  EXPECT_FALSE(decode(bytes, false));
  bytes[1] = static_cast<std::byte>(static_cast<int>(Op::kHalfShutdown) + 1);
  bytes[8] = std::byte{16};
  EXPECT_FALSE(decode(bytes, false)) << "the next number has no meaning";
}

TEST_F(HalfShutdown, PartlyReceivedMessageIsCancelledAndItsBufferIsLeftAlone) {
  connect(true);
  constexpr std::size_t kLength = 100000;
  std::vector<char> room(kLength, 'r'), sent(kLength, 's');
  char other;
  ASSERT_EQ(fi_recv(side.ep, room.data(), room.size(), nullptr, 0, room.data()), 0);
  ASSERT_EQ(fi_recv(side.ep, &other, 1, nullptr, 0, &other), 0);
  write(header_of(Op::kMessage, kLength, true));
  write(sent.data(), kLength / 2);
  ASSERT_TRUE(drive([&] { return room[kLength / 2 - 1] == 's'; }));
  ASSERT_EQ(shut(FI_READ), 0);
  // Both completions are there, without progress.
  for (void* context : {static_cast<void*>(room.data()), static_cast<void*>(&other)}) {
    Done done;
    ASSERT_TRUE(side.poll(done));
    EXPECT_EQ(done.context, context);
    EXPECT_EQ(done.error, FI_ECANCELED);
  }
  EXPECT_EQ(fi_recv(side.ep, &other, 1, nullptr, 0, nullptr), -FI_ESHUTDOWN);
  EXPECT_EQ(shut(FI_READ), 0) << "a second time";
  write(sent.data(), kLength / 2);
  EXPECT_TRUE(read_header().is_ack());
  EXPECT_EQ(room[kLength / 2], 'r');
  // Later messages are dropped and acknowledged, and the own side goes on.
  write(header_of(Op::kMessage, 3, true));
  write("abc", 3);
  EXPECT_TRUE(read_header().is_ack());
  ASSERT_EQ(fi_send(side.ep, "x", 1, nullptr, 0, nullptr), 0);
  EXPECT_EQ(read_header().payload, 1u);
}

TEST_F(HalfShutdown, StoredMessagesAreDroppedAndABlockedConnectionGoesOn) {
  connect(true);
  constexpr std::size_t kLength = 200 * 1024;  // the second one is beyond the limit of unexpected messages
  const std::vector<char> sent(kLength, 's');
  for (int i = 0; i < 3; ++i) {
    write(header_of(Op::kMessage, kLength, true));
    std::size_t gone = 0;
    ASSERT_TRUE(drive([&] {
      const ssize_t got = ::send(peer.get(), sent.data() + gone, kLength - gone, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (got > 0) gone += static_cast<std::size_t>(got);
      return gone == kLength;
    }));
  }
  rounds();
  ASSERT_EQ(shut(FI_READ), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(read_header().is_ack());
}

TEST_F(HalfShutdown, HasNoOtherHalvesAndNoOtherNames) {
  side.open_endpoint();
  EXPECT_EQ(shut(FI_WRITE), -FI_ENOTCONN);
  EXPECT_EQ(shut(FI_READ), -FI_ENOTCONN);
  side.close_one(side.ep);
  connect(true);
  EXPECT_EQ(shut(0), -FI_EBADFLAGS);
  EXPECT_EQ(shut(FI_READ | FI_WRITE), -FI_EBADFLAGS);
  void* table = &table;
  EXPECT_EQ(fi_open_ops(&side.ep->fid, "weft_half_shutdown_v2", 0, &table, nullptr), -FI_ENOSYS);
  EXPECT_EQ(table, static_cast<void*>(&table));
}

}  // namespace
}  // namespace weft::tcp
