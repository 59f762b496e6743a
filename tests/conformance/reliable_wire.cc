// SPDX-License-Identifier: BSD-2-Clause
// Reliable datagrams (FI_EP_RDM) of tcp itself, byte by byte: greetings, crossing requests, the announcement of long
// tagged messages, and peers that break the rules. The peers are bare sockets; fi_endpoint(3), fi_cm(3).
#include <rdma/fi_tagged.h>
#include <unistd.h>

#include <memory>

#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/parameter.h"
#include "fixture/raw_client.h"
#include "fixture/raw_peer.h"

namespace reliable_wire {

CONFORMANCE_TOPIC(ReliableWire);

#define RELIABLE_TCP_ONLY() \
  if (!speaks_tcp() || target().ep_type != FI_EP_RDM) GTEST_SKIP() << "the wire of tcp's own reliable datagrams"

namespace {

using raw::RawClient, raw::greeting, raw::kGreeting;

constexpr uint8_t kAnnouncement = 5, kClearance = 6, kAnnounced = 7;
constexpr size_t kLong = 300'000;

std::string with_ticket(std::string header, uint8_t ticket) {
  header[4] = static_cast<char>(ticket);
  return header;
}

// An end of weft that is connected to a bare socket.
struct Scene {
  explicit Scene(const Target& target) : fabric(target), end(fabric), name(end.address()) {}
  Fabric fabric;
  DatagramEnd end;
  const Address name;
};

}  // namespace

TEST_P(ReliableWire, HandshakeAgreesOnTheLowerVersion) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  for (const auto& [said, answered] : {std::pair{0, 0}, std::pair{1, 0x81}, std::pair{9, 0x81}}) {
    const RawClient peer(scene.name, static_cast<uint8_t>(said), static_cast<uint16_t>(10 + said));
    ASSERT_TRUE(peer.accepted) << said;
    EXPECT_EQ(peer.answer, greeting(static_cast<uint8_t>(answered), scene.name.port(), static_cast<uint32_t>(getpid())))
        << said;
  }
}

TEST_P(ReliableWire, RequestWithoutGreetingIsRejected) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  for (const std::string& data : {std::string(), std::string(7, '\1')}) {
    raw::Socket peer = raw::Socket::connected_to(scene.name);
    ASSERT_TRUE(peer.write(raw::cm_message(raw::kConnreq, data)));
    const std::string answer = peer.read(raw::kCmHeader);
    ASSERT_EQ(answer.size(), raw::kCmHeader);
    EXPECT_EQ(answer[1], raw::kNack);
    EXPECT_TRUE(peer.closed_by_peer());
  }
}

TEST_P(ReliableWire, RestartedProcessReplacesItsConnection) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  RawClient first(scene.name, 1, 9, 100);
  ASSERT_TRUE(first.accepted);
  EXPECT_FALSE(RawClient(scene.name, 1, 9, 100).accepted) << "it is connected";
  RawClient second(scene.name, 1, 9, 100);
  EXPECT_TRUE(second.accepted) << "it has the endpoint under another address, too";
  EXPECT_FALSE(RawClient(scene.name, 1, 9, 100).accepted) << "it has both";
  EXPECT_TRUE(RawClient(scene.name, 1, 9, 101).accepted);
  EXPECT_TRUE(first.socket.closed_by_peer());
}

TEST_P(ReliableWire, RequestOfADeadProcessLeavesTheConnection) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  RawClient first(scene.name, 1, 9, 100);
  ASSERT_TRUE(first.accepted);
  {
    raw::Socket dead = raw::Socket::connected_to(scene.name);
    ASSERT_TRUE(dead.write(raw::cm_message(raw::kConnreq, greeting(1, 9, 101))));
  }
  for (int i = 0; i < 200; ++i) driver::poke_and_rest();
  EXPECT_FALSE(first.socket.closed_by_peer(milliseconds(1)));
  EXPECT_TRUE(RawClient(scene.name, 1, 9, 100).accepted) << "beside the connection";
}

TEST_P(ReliableWire, GreaterAddressWinsWhenRequestsCross) {
  RELIABLE_TCP_ONLY();
  bool lost = false, won = false;
  for (int i = 0; i < 200 && !(lost && won); ++i) {
    Scene scene(target());
    raw::Socket listener = raw::Socket::listening(target().address);
    scene.end->peer = scene.end.insert(listener.address());
    Buffer out(scene.fabric, 64);
    Context sent;
    ASSERT_EQ(scene.end->tsend(out, 64, 5, &sent), 0);
    raw::Socket asked = listener.accept();
    const std::string request = asked.read(raw::kCmHeader + kGreeting);
    ASSERT_EQ(request.substr(raw::kCmHeader), greeting(1, scene.name.port(), static_cast<uint32_t>(getpid()),
                                                       raw::kClientHasAtomics | raw::kClientHasNumbers));
    // The wire compares bytes in their order on the wire, so the most significant comes first.
    const bool greater = listener.address().port() > scene.name.port();
    (greater ? won : lost) = true;
    RawClient crossing(scene.name, 1, listener.address().port(), 77);
    ASSERT_EQ(crossing.accepted, greater);
    if (!greater) require(asked.write(raw::cm_message(raw::kConnresp, greeting(0x81, 9, 77))), "write");
    raw::Socket& open = greater ? crossing.socket : asked;
    EXPECT_EQ(open.read(24 + 64).substr(16, 8), raw::word(5));
    EXPECT_TRUE(scene.end->tx().wait().ok());
    EXPECT_TRUE(!greater || asked.closed_by_peer());
  }
  EXPECT_TRUE(lost && won) << "not seen both";
}

TEST_P(ReliableWire, RefusedRequestIsRepeatedUntilTheDeadline) {
  RELIABLE_TCP_ONLY();
  const Parameter deadline("FI_TCP_CONNECT_TIMEOUT", "700"), answer("FI_TCP_ANSWER_TIMEOUT", "700");
  Scene scene(target());
  raw::Socket listener = raw::Socket::listening(target().address);
  scene.end->peer = scene.end.insert(listener.address());
  Buffer out(scene.fabric, 64);
  Context sent;
  ASSERT_EQ(scene.end->tsend(out, 64, 5, &sent), 0);
  for (int i = 0; i < 2; ++i) {
    raw::Socket asked = listener.accept();
    ASSERT_EQ(asked.read(raw::kCmHeader + kGreeting).size(), raw::kCmHeader + kGreeting) << i;
    ASSERT_TRUE(asked.write(raw::cm_message(raw::kNack)));
  }
  const Completion failed = scene.end->tx().wait();
  EXPECT_TRUE(failed.err() == FI_ECONNREFUSED || failed.err() == FI_ETIMEDOUT) << failed;
  EXPECT_EQ(failed.context(), &sent);
}

TEST_P(ReliableWire, LongTaggedMessagesAreAnnouncedAndSentOnRequest) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  Buffer in(scene.fabric, kLong), out(scene.fabric, kLong);
  out.fill_pattern(7);
  RawClient peer(scene.name, 1);
  ASSERT_TRUE(peer.accepted);
  // From the peer: found before its data arrives, sent once it is received.
  ASSERT_TRUE(
      peer.socket.write(with_ticket(raw::data_header(kAnnouncement, 32, 32), 200) + raw::word(11) + raw::word(kLong)));
  Context context;
  fi_msg_tagged peek{nullptr, nullptr, 0, FI_ADDR_UNSPEC, 11, 0, &context, 0};
  Completion found;
  do {
    driver::poke();
    ASSERT_EQ(fi_trecvmsg(scene.end->ep(), &peek, FI_PEEK), 0);
    found = scene.end->rx().wait();
  } while (found.err() == FI_ENOMSG);
  EXPECT_EQ(found.entry.len, kLong);
  ASSERT_EQ(scene.end->trecv(in, kLong, 11, 0, &context), 0);
  EXPECT_EQ(peer.socket.read(16).replace(7, 1, 1, '\0'), with_ticket(raw::data_header(kClearance, 16), 200));
  ASSERT_TRUE(peer.socket.write(with_ticket(raw::data_header(kAnnounced, 16 + kLong), 200) + out.text(kLong)));
  const Completion received = scene.end->rx().wait();
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_TRUE(in.holds_pattern(7, kLong));
}

TEST_P(ReliableWire, PeersOfTheFirstVersionGetLongMessagesAtOnce) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  Buffer out(scene.fabric, kLong);
  for (const uint8_t version : {0, 1}) {
    const auto port = static_cast<uint16_t>(20 + version);
    RawClient peer(scene.name, version, port);
    ASSERT_TRUE(peer.accepted);
    scene.end->peer = scene.end.insert(Address::numeric(target().address, port));
    Context sent;
    ASSERT_EQ(scene.end->tsend(out, kLong, 6, &sent), 0);
    const std::string header = peer.socket.read(version == 0 ? 24 : 32);
    ASSERT_EQ(header[1], version == 0 ? static_cast<char>(raw::kTagged) : static_cast<char>(kAnnouncement));
    EXPECT_EQ(header.substr(16, 8), raw::word(6));
    if (version == 1) {
      EXPECT_EQ(header.substr(24), raw::word(kLong));
      const auto ticket = static_cast<uint8_t>(header[4]);
      EXPECT_NE(ticket, 0);
      EXPECT_TRUE(scene.end->tx().stays_silent(milliseconds(20)));
      ASSERT_TRUE(peer.socket.write(with_ticket(raw::data_header(kClearance, 16), ticket)));
      const std::string data = peer.socket.read(16);
      EXPECT_EQ(data[1], static_cast<char>(kAnnounced));
      EXPECT_EQ(static_cast<uint8_t>(data[4]), ticket);
    }
    EXPECT_EQ(peer.socket.read(kLong).size(), kLong);
    EXPECT_TRUE(scene.end->tx().wait().ok());
  }
}

TEST_P(ReliableWire, MalformedPacketsEndTheirConnectionAndNoOther) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  Pair bystanders(scene.fabric);
  expect_exchange(bystanders);
  const std::string announcement = with_ticket(raw::data_header(kAnnouncement, 32, 32), 3) + raw::word(1);
  uint16_t port = 1;
  for (const std::string& bytes :
       {raw::data_header(8, 16), raw::data_header(0, 8), raw::data_header(0, 16, 15), raw::data_header(1, 16),
        raw::data_header(kClearance, 16), with_ticket(raw::data_header(kClearance, 16), 9),
        raw::data_header(kClearance, 20) + "1234", raw::data_header(kAnnounced, 17) + "1",
        raw::data_header(kAnnouncement, 24, 24) + raw::word(1),
        raw::data_header(kAnnouncement, 36, 32) + std::string(20, 'x'), raw::data_header(raw::kReadRsp, 17) + "1",
        raw::data_header(raw::kWrite, 16 + 24, 40, 0, 1) + std::string(24, 1),
        raw::data_header(raw::kReadReq, 16 + 24, 40, 0, 1) + std::string(24, 1),
        with_ticket(raw::data_header(0, 16), 2) /* an acknowledgement */}) {
    RawClient peer(scene.name, 1, port++);
    ASSERT_TRUE(peer.accepted);
    ASSERT_TRUE(peer.socket.write(bytes));
    EXPECT_TRUE(peer.socket.closed_by_peer()) << "of " << port - 2;
  }
  // The announced message has another length, or its sender closes.
  for (const bool lies : {true, false}) {
    Buffer in(scene.fabric, kLong);
    Context context;
    RawClient peer(scene.name, 1, port++);
    ASSERT_EQ(scene.end->trecv(in, kLong, 1, 0, &context), 0);
    ASSERT_TRUE(peer.socket.write(announcement + raw::word(1000)));
    ASSERT_EQ(peer.socket.read(16).size(), 16u);
    if (lies)
      ASSERT_TRUE(peer.socket.write(with_ticket(raw::data_header(kAnnounced, 16 + 999), 3) + std::string(999, 'x')));
    else
      peer.socket.close();
    const Completion failed = scene.end->rx().wait();
    EXPECT_EQ(failed.err(), lies ? EPROTO : FI_ECONNRESET) << failed;
    EXPECT_EQ(failed.context(), &context);
  }
  expect_exchange(bystanders);
}

// The peer may be cut off at every byte of a conversation; nothing hangs, leaks or is reported twice.
TEST_P(ReliableWire, PeersMayCloseAtAnyByte) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  const std::string said = raw::data_header(1, 24 + 20, 24) + raw::word(3) + std::string(20, 'y') +
                           with_ticket(raw::data_header(kAnnouncement, 32, 32), 4) + raw::word(4) + raw::word(200);
  Buffer in(scene.fabric, 256);
  for (size_t length = 0; length <= said.size(); ++length) {
    RawClient peer(scene.name, 1, static_cast<uint16_t>(1 + length));
    ASSERT_TRUE(peer.accepted);
    ASSERT_TRUE(peer.socket.write(said.substr(0, length)));
    Context small, announced;
    ASSERT_EQ(scene.end->trecv(in, 20, 3, 0, &small), 0);
    ASSERT_EQ(scene.end->trecv(in, 200, 4, 0, &announced), 0);
    if (length % 2 == 0)
      peer.socket.close();
    else
      peer.socket.reset();
    for (int i = 0; i < 20; ++i) driver::poke();
    // Receives without a message are still posted.
    for (Context* context : {&small, &announced})
      if (fi_cancel(&scene.end->ep()->fid, context) == -FI_ENOENT) continue;
    bool seen[2] = {};
    for (int i = 0; i < 2; ++i) {
      const Completion done = scene.end->rx().wait();
      ASSERT_TRUE(done.context() == &small || done.context() == &announced);
      EXPECT_FALSE(std::exchange(seen[done.context() == &announced], true)) << length;
    }
    EXPECT_TRUE(scene.end->rx().stays_silent(milliseconds(0)));
  }
}

}  // namespace reliable_wire
