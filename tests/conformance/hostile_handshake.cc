// SPDX-License-Identifier: BSD-2-Clause
// Peers that break the connection handshake of the tcp wire protocol: a clear error or silence, no crash, no hang, and
// connections of the same domain continue. The peers are bare sockets.
#include "fixture/node.h"
#include "fixture/raw_peer.h"

namespace hostile_handshake {

CONFORMANCE_TOPIC(HostileHandshake);

namespace {

// A listener under attack, and a connection of the same domain that must not be affected.
struct UnderAttack {
  explicit UnderAttack(const Target& target) : fabric(target), bystanders(fabric), listener(fabric) {}

  raw::Socket attacker() { return raw::Socket::connected_to(listener.address()); }

  void expect_unhurt() {
    expect_exchange(bystanders);
    Node client(fabric);
    ASSERT_EQ(client.connect(listener.address(), "honest"), 0);
    std::vector<char> data;
    const InfoPtr request = listener.next_request(&data);
    EXPECT_EQ(std::string(data.begin(), data.end()), "honest");
    Node answerer(fabric, {}, request.get());
    ASSERT_EQ(answerer.accept(), 0);
    client.eq().expect(FI_CONNECTED, client.fid());
    expect_round_trip(client, answerer);
  }

  Fabric fabric;
  Pair bystanders;
  Listener listener;
};

// An endpoint that connects to a listener which misbehaves.
struct Misled {
  explicit Misled(const Target& target)
      : fabric(target), bystanders(fabric), hole(raw::Socket::listening(target.address)), client(fabric) {
    require_ok(client.connect(hole.address(), "hello"), "fi_connect");
    peer = hole.accept();
    const std::string request = raw::without_extensions(peer.read(raw::kCmHeader + 5));
    require(request == raw::cm_message(raw::kConnreq, "hello"), "the request is not what the protocol says");
  }

  void expect_error() {
    const Event event = client.eq().expect(Event::kError, client.fid());
    EXPECT_NE(event.err, 0) << event;
    EXPECT_FALSE(event.sentence.empty());
    EXPECT_TRUE(client.eq().stays_silent(milliseconds(20))) << "exactly one terminal event";
    expect_exchange(bystanders);
  }

  Fabric fabric;
  Pair bystanders;
  raw::Socket hole, peer;
  Node client;
};

}  // namespace

TEST_P(HostileHandshake, RawPeerThatBehavesIsAccepted) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  raw::Socket peer = scene.attacker();
  ASSERT_TRUE(peer.write(raw::cm_message(raw::kConnreq, "raw")));
  std::vector<char> data;
  const InfoPtr request = scene.listener.next_request(&data);
  EXPECT_EQ(std::string(data.begin(), data.end()), "raw");
  Node answerer(scene.fabric, {}, request.get());
  ASSERT_EQ(answerer.accept("yes"), 0);
  EXPECT_EQ(raw::without_extensions(peer.read(raw::kCmHeader + 3)), raw::cm_message(raw::kConnresp, "yes"));
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
}

TEST_P(HostileHandshake, RawPeerIsRejectedWithData) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  raw::Socket peer = scene.attacker();
  ASSERT_TRUE(peer.write(raw::cm_message(raw::kConnreq)));
  const InfoPtr request = scene.listener.next_request();
  ASSERT_EQ(fi_reject(scene.listener.pep(), request->handle, "no", 2), 0);
  const std::string nack = raw::without_extensions(peer.read(raw::kCmHeader + 2));
  const std::string expected = raw::cm_message(raw::kNack, "no");
  EXPECT_EQ(nack.substr(0, 24), expected.substr(0, 24));
  EXPECT_EQ(nack.substr(raw::kCmHeader), "no");
  EXPECT_TRUE(peer.closed_by_peer());
}

TEST_P(HostileHandshake, ClientThatClosesAtAnyByteGivesNoRequest) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  const std::string request = raw::cm_message(raw::kConnreq, "private");
  for (size_t size = 0; size < request.size(); ++size) {
    raw::Socket peer = scene.attacker();
    ASSERT_TRUE(peer.write(request.substr(0, size)));
    if (size % 2) peer.reset();
  }
  EXPECT_TRUE(scene.listener.eq().stays_silent());
  scene.expect_unhurt();
}

TEST_P(HostileHandshake, RequestThatArrivesInPiecesIsUnderstood) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  raw::Socket peer = scene.attacker();
  for (char byte : raw::cm_message(raw::kConnreq, "slow")) {
    ASSERT_TRUE(peer.write({&byte, 1}));
    scene.listener.eq().stays_silent(milliseconds(2));
  }
  std::vector<char> data;
  EXPECT_TRUE(scene.listener.next_request(&data));
  EXPECT_EQ(std::string(data.begin(), data.end()), "slow");
}

TEST_P(HostileHandshake, BadRequestsAreDroppedAndDisconnected) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  const std::string bad[] = {
      std::string(raw::kCmHeader, '\xff'),                         // garbage
      "GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: */*\r\n\r\n",  // another protocol
      raw::cm_message(raw::kConnreq, {}, -1, 2),                   // wrong version
      raw::cm_message(raw::kConnreq, {}, -1, 4),
      raw::cm_message(raw::kConnresp),  // not a request
      raw::cm_message(raw::kNack),
      raw::cm_message(static_cast<raw::CmType>(99)),
      raw::cm_message(raw::kConnreq, std::string(257, 'x')),  // one byte more than allowed
      raw::cm_message(raw::kConnreq, std::string(300, 'x'), 65535),
  };
  for (const std::string& bytes : bad) {
    raw::Socket peer = scene.attacker();
    peer.write(bytes);
    EXPECT_TRUE(peer.closed_by_peer()) << "message starting with " << int(bytes[0]) << ", " << int(bytes[1]);
  }
  EXPECT_TRUE(scene.listener.eq().stays_silent());
  scene.expect_unhurt();
}

TEST_P(HostileHandshake, EndlessDataIsCutOff) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  raw::Socket peer = scene.attacker();
  const std::string block(64 * 1024, '\xee');
  bool accepted = true;
  for (int i = 0; i < 512 && accepted; ++i) accepted = peer.write(block);  // 32 MiB without a limit
  EXPECT_FALSE(accepted);
  scene.expect_unhurt();
}

TEST_P(HostileHandshake, SilentClientsDoNotBlockOthers) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  std::vector<raw::Socket> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(scene.attacker());
  scene.expect_unhurt();
}

TEST_P(HostileHandshake, RequestOfAClosedClientCanStillBeAnswered) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  {
    raw::Socket peer = scene.attacker();
    ASSERT_TRUE(peer.write(raw::cm_message(raw::kConnreq, "bye")));
  }
  const Event event = scene.listener.eq().wait(after(milliseconds(500)));
  if (event.type == FI_CONNREQ) {
    fi_reject(scene.listener.pep(), event.info->handle, nullptr, 0);
  }
  scene.expect_unhurt();
}

TEST_P(HostileHandshake, ServerThatClosesAtAnyByteGivesAnError) {
  TCP_WIRE_ONLY();
  const std::string answer = raw::cm_message(raw::kConnresp, "data");
  for (size_t size = 0; size < answer.size(); size += 5) {
    Misled scene(target());
    scene.peer.write(answer.substr(0, size));
    if (size % 2)
      scene.peer.reset();
    else
      scene.peer.close();
    scene.expect_error();
  }
}

TEST_P(HostileHandshake, BadAnswersGiveAnError) {
  TCP_WIRE_ONLY();
  const std::string bad[] = {
      std::string(raw::kCmHeader, '\xff'),
      "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
      raw::cm_message(raw::kConnresp, {}, -1, 2),
      raw::cm_message(raw::kConnreq),
      raw::cm_message(static_cast<raw::CmType>(42)),
      raw::cm_message(raw::kConnresp, std::string(257, 'x')),
      raw::cm_message(raw::kNack, std::string(400, 'x')),
  };
  for (const std::string& bytes : bad) {
    Misled scene(target());
    scene.peer.write(bytes);
    scene.expect_error();
  }
}

TEST_P(HostileHandshake, WrongVersionIsReportedAsProtocolError) {
  TCP_WIRE_ONLY();
  Misled scene(target());
  scene.peer.write(raw::cm_message(raw::kConnresp, {}, -1, 9));
  const Event event = scene.client.eq().expect(Event::kError, scene.client.fid());
  EXPECT_EQ(event.err, FI_ENOPROTOOPT) << event;
}

TEST_P(HostileHandshake, AnswerInPiecesConnects) {
  TCP_WIRE_ONLY();
  Misled scene(target());
  for (char byte : raw::cm_message(raw::kConnresp, "slow")) {
    ASSERT_TRUE(scene.peer.write({&byte, 1}));
    scene.client.eq().stays_silent(milliseconds(1));
  }
  const Event event = scene.client.eq().expect(FI_CONNECTED, scene.client.fid());
  EXPECT_EQ(event.cm_text(), "slow");
}

TEST_P(HostileHandshake, OtherByteOrderIsUnderstood) {
  TCP_WIRE_ONLY();
  UnderAttack scene(target());
  raw::Socket peer = scene.attacker();
  std::string request = raw::cm_message(raw::kConnreq, "swapped");
  request.replace(24, 8, raw::word(__builtin_bswap64(1)));
  ASSERT_TRUE(peer.write(request));
  const InfoPtr info = scene.listener.next_request();
  Node answerer(scene.fabric, {}, info.get());
  Buffer in(scene.fabric, 16);
  Context context;
  answerer.enable();
  ASSERT_EQ(answerer.recv(in, 16, &context), 0);
  ASSERT_EQ(answerer.accept(), 0);
  std::string header = raw::data_header(raw::kMsg, 0);
  header.replace(8, 8, raw::word(__builtin_bswap64(raw::kDataHeader + 4)));
  ASSERT_TRUE(peer.write(header + "swap"));
  const Completion completion = answerer.rx().wait();
  ASSERT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(in.text(4), "swap");
}

}  // namespace hostile_handshake
