// SPDX-License-Identifier: BSD-2-Clause
// Peers that break the data protocol of the tcp wire once connected: they close at any byte of a message, send garbage,
// or announce wrong lengths. The endpoint gets exactly one terminal event after its last completion, and other
// connections are not affected. The peers are bare sockets.
#include <linux/sockios.h>
#include <rdma/fi_rma.h>
#include <sys/ioctl.h>

#include "fixture/driver.h"
#include "fixture/node.h"
#include "fixture/raw_peer.h"

namespace hostile_data {

CONFORMANCE_TOPIC(HostileData);

namespace {

constexpr size_t kSize = 4096;
constexpr size_t kReceives = 2;

// A victim that accepted a bare socket, with receives and a region that the attacker could reach.
struct Attacked {
  explicit Attacked(const Target& target, bool post = true)
      : fabric(target),
        bystanders(fabric),
        listener(fabric),
        in(fabric, kSize, '.'),
        region(fabric, kSize, 'r', FI_REMOTE_READ | FI_REMOTE_WRITE),
        attacker(raw::Socket::connected_to(listener.address())) {
    require(attacker.write(raw::cm_message(raw::kConnreq)), "write");
    const InfoPtr request = listener.next_request();
    victim = std::make_unique<Node>(fabric, NodeOptions{}, request.get());
    victim->enable();
    if (post)
      for (Context& context : received) require_ok(victim->recv(in, kSize, &context), "fi_recv");
    require_ok(victim->accept(), "fi_accept");
    require(attacker.read(raw::kCmHeader).size() == raw::kCmHeader, "no answer to the request");
    victim->eq().expect(FI_CONNECTED, victim->fid());
  }

  // The victim reports the end once, and has accounted for all receives by then.
  void expect_ended() {
    const Event event = victim->eq().wait();
    EXPECT_TRUE(event.type == FI_SHUTDOWN || event.type == Event::kError) << event;
    EXPECT_EQ(event.fid, victim->fid());
    for (Context& context : received) {
      const Completion completion = victim->rx().read();
      EXPECT_NE(completion.rc, -FI_EAGAIN) << "the terminal event came before the last completion";
      EXPECT_EQ(completion.context(), &context);
    }
    EXPECT_TRUE(victim->eq().stays_silent(milliseconds(10))) << "exactly one terminal event";
    for (char byte : region.text(kSize)) ASSERT_EQ(byte, 'r');
    expect_exchange(bystanders);
  }

  Fabric fabric;
  Pair bystanders;
  Listener listener;
  Buffer in, region;
  Context received[kReceives];
  raw::Socket attacker;
  std::unique_ptr<Node> victim;
};

std::string message(std::string_view payload) {
  return raw::data_header(raw::kMsg, raw::kDataHeader + payload.size()).append(payload);
}

std::string rma_iov(uint64_t address, uint64_t length, uint64_t key) {
  return raw::word(address) + raw::word(length) + raw::word(key);
}

}  // namespace

// FI_ECANCELED with the reason in prov_errno; fi_tcp(7). The send meets the error before the queue is read.
TEST_P(HostileData, AResetIsTheReasonAlthoughASendMetItFirst) {
  TCP_WIRE_ONLY();
  Attacked scene(target());
  scene.attacker.reset();
  Buffer out(scene.fabric, 64);
  Context sent[2];
  for (Context& context : sent) (void)fi_send(scene.victim->ep(), out.data(), 64, out.desc(), 0, &context);
  const Completion failed = scene.victim->tx().wait();
  EXPECT_NE(failed.err(), 0) << failed;
  EXPECT_EQ(failed.error.prov_errno, FI_ECONNRESET);
  for (Context& context : scene.received) {
    const Completion canceled = scene.victim->rx().wait();
    EXPECT_EQ(canceled.context(), &context);
    EXPECT_EQ(canceled.error.prov_errno, FI_ECONNRESET);
  }
}

TEST_P(HostileData, RawPeerThatBehavesIsUnderstood) {
  TCP_WIRE_ONLY();
  Attacked scene(target());
  ASSERT_TRUE(scene.attacker.write(message("plain")));
  ASSERT_TRUE(scene.attacker.write(raw::data_header(raw::kMsg, 24 + 4, 24, 1) + raw::word(0xdadadada) + "data"));
  Completion completion = scene.victim->rx().wait();
  ASSERT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.entry.len, 5u);
  completion = scene.victim->rx().wait();
  ASSERT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.entry.data, 0xdadadadau);
  EXPECT_EQ(scene.in.text(4), "data");
  Context sent;
  ASSERT_EQ(scene.victim->send(scene.in, 4, &sent), 0);
  EXPECT_EQ(scene.attacker.read(20), raw::data_header(raw::kMsg, 20) + "data");
}

TEST_P(HostileData, MessageInPiecesOfEverySizeArrives) {
  TCP_WIRE_ONLY();
  const std::string bytes = message("first message") + message("") + message(std::string(500, 'x'));
  for (size_t piece : {size_t{1}, size_t{7}, size_t{15}, size_t{17}, size_t{29}}) {
    Attacked scene(target(), false);
    Context contexts[3];
    for (Context& context : contexts) ASSERT_EQ(scene.victim->recv(scene.in, kSize, &context), 0);
    for (size_t at = 0; at < bytes.size(); at += piece) {
      ASSERT_TRUE(scene.attacker.write(bytes.substr(at, piece)));
      driver::poke();
    }
    for (size_t length : {size_t{13}, size_t{0}, size_t{500}}) {
      const Completion completion = scene.victim->rx().wait();
      ASSERT_TRUE(completion.ok()) << completion;
      EXPECT_EQ(completion.entry.len, length);
    }
  }
}

TEST_P(HostileData, PeerThatClosesAtAnyByteOfAMessageEndsTheConnection) {
  TCP_WIRE_ONLY();
  const std::string bytes = raw::data_header(raw::kMsg, 24 + 8, 24, 1) + raw::word(1) + "payload!";
  for (size_t size = 0; size < bytes.size(); size += size < 17 ? 1 : 3) {
    Attacked scene(target());
    ASSERT_TRUE(scene.attacker.write(bytes.substr(0, size)));
    if (size % 2)
      scene.attacker.reset();
    else
      scene.attacker.close();
    scene.expect_ended();
    if (HasFailure()) FAIL() << "vanished after " << size << " bytes";
  }
}

TEST_P(HostileData, GarbageEndsTheConnection) {
  TCP_WIRE_ONLY();
  const std::string garbage[] = {
      std::string(64, '\xff'),
      "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: keep-alive\r\nUser-Agent: a lost browser\r\n\r\n",
      raw::data_header(200, 16),           // unknown operation
      raw::data_header(raw::kMsg, 16, 0),  // header shorter than a header
      raw::data_header(raw::kMsg, 16, 15),
      raw::data_header(raw::kMsg, 16, 255) + std::string(240, 0),  // longer than any header
      raw::data_header(raw::kMsg, 3),                              // size smaller than the header
      raw::data_header(raw::kMsg, 0),
      raw::data_header(raw::kMsg, 16, 24, 1) + raw::word(1),            // size smaller than the longer header
      raw::data_header(raw::kReadRsp, 16 + 64) + std::string(64, 'x'),  // answer to a read that was never sent
      raw::data_header(raw::kWrite, 16 + 5 * 24, 16 + 5 * 24, 0, 5) + std::string(5 * 24, 0),  // too many regions
      raw::data_header(71, 24, 24) + raw::word(1),    // weft's refusal of a write, not announced
      raw::data_header(72, 16),                       // the status of a read that was never sent
      raw::data_header(raw::kReadReq, 16, 16, 0, 0),  // a read without any range
      raw::data_header(raw::kWrite, 16, 16, 0, 4),    // ranges that do not fit into the header
  };
  for (const std::string& bytes : garbage) {
    Attacked scene(target());
    scene.attacker.write(bytes);
    if (bytes[1] != raw::kReadReq) {
      EXPECT_TRUE(scene.attacker.closed_by_peer());
    }
    scene.attacker.close();
    scene.expect_ended();
    if (HasFailure()) FAIL() << "operation " << int(bytes[1]) << ", header size " << int(bytes[6]);
  }
}

TEST_P(HostileData, UnsolicitedAcknowledgementEndsTheConnection) {
  TCP_WIRE_ONLY();
  Attacked scene(target());
  std::string ack = raw::data_header(raw::kMsg, 16);
  ack[4] = 2;
  scene.attacker.write(ack);
  EXPECT_TRUE(scene.attacker.closed_by_peer());
  scene.expect_ended();
}

TEST_P(HostileData, MessageOfAbsurdSizeIsTruncatedAndTheRestDiscarded) {
  TCP_WIRE_ONLY();
  Attacked scene(target());
  ASSERT_TRUE(scene.attacker.write(raw::data_header(raw::kMsg, ~0ull)));
  const std::string block(64 * 1024, 'z');
  for (int i = 0; i < 64; ++i)  // endless data; the victim may discard it or close
    if (!scene.attacker.write(block)) break;
  scene.attacker.close();
  scene.expect_ended();
}

TEST_P(HostileData, WritesOutsideTheRegionAreRefused) {
  TCP_WIRE_ONLY();
  struct Range {
    uint64_t offset, length;
  };
  for (const Range& range :
       {Range{kSize - 8, 16}, Range{kSize, 1}, Range{~0ull - 8, 16}, Range{8, ~0ull - 4}, Range{1ull << 63, 16}}) {
    Attacked scene(target());
    const std::string iov = rma_iov(scene.region.remote_address() + range.offset, range.length, scene.region.key());
    const uint64_t payload = std::min<uint64_t>(range.length, 16);
    scene.attacker.write(raw::data_header(raw::kWrite, 40 + payload, 40, 0, 1) + iov + std::string(payload, 'w'));
    EXPECT_TRUE(scene.attacker.closed_by_peer());
    scene.expect_ended();
    if (HasFailure()) FAIL() << "offset " << range.offset << ", length " << range.length;
  }
}

TEST_P(HostileData, WriteLongerThanItsRegionsIsRefused) {
  TCP_WIRE_ONLY();
  Attacked scene(target());
  const std::string iov = rma_iov(scene.region.remote_address(), 8, scene.region.key());
  scene.attacker.write(raw::data_header(raw::kWrite, 40 + 64, 40, 0, 1) + iov + std::string(64, 'w'));
  EXPECT_TRUE(scene.attacker.closed_by_peer());
  const Event event = scene.victim->eq().wait();
  EXPECT_TRUE(event.type == FI_SHUTDOWN || event.type == Event::kError) << event;
  for (char byte : scene.region.text(kSize).substr(8)) ASSERT_EQ(byte, 'r') << "wrote beyond the named range";
  expect_exchange(scene.bystanders);
}

TEST_P(HostileData, ReadsOutsideTheRegionAreRefused) {
  TCP_WIRE_ONLY();
  for (uint64_t offset : {uint64_t{kSize - 8}, uint64_t{kSize}, ~uint64_t{8}}) {
    Attacked scene(target());
    const std::string iov = rma_iov(scene.region.remote_address() + offset, 16, scene.region.key());
    scene.attacker.write(raw::data_header(raw::kReadReq, 40, 40, 0, 1) + iov);
    EXPECT_EQ(scene.attacker.read(1), "") << "not a byte leaves the victim";
    scene.expect_ended();
  }
}

TEST_P(HostileData, WrongKeyIsRefused) {
  TCP_WIRE_ONLY();
  Attacked scene(target());
  const std::string iov = rma_iov(scene.region.remote_address(), 16, scene.region.key() ^ 0x5555);
  scene.attacker.write(raw::data_header(raw::kWrite, 56, 40, 0, 1) + iov + std::string(16, 'w'));
  EXPECT_TRUE(scene.attacker.closed_by_peer());
  scene.expect_ended();
}

TEST_P(HostileData, ReadAnswerOfAnotherLengthIsAnError) {
  TCP_WIRE_ONLY();
  for (size_t length : {size_t{0}, size_t{32}, size_t{96}}) {  // 64 were requested
    Attacked scene(target());
    Buffer local(scene.fabric, 128, 'l', FI_READ);
    Context context;
    ASSERT_EQ(retry([&] {
                return fi_read(scene.victim->ep(), local.data(), 64, local.desc(), scene.victim->peer, 0, 1, &context);
              }),
              0);
    ASSERT_EQ(scene.attacker.read(40).size(), 40u);
    scene.attacker.write(raw::data_header(raw::kReadRsp, 16 + length) + std::string(length, 'a'));
    scene.attacker.close();
    const Completion completion = scene.victim->tx().wait();
    EXPECT_NE(completion.err(), 0) << completion;
    EXPECT_EQ(completion.context(), &context);
    EXPECT_EQ(local.data()[64], 'l') << "wrote beyond the buffer";
    scene.expect_ended();
    if (HasFailure()) FAIL() << "answered with " << length << " bytes";
  }
}

TEST_P(HostileData, PeerThatNeverReadsOnlyBlocksItself) {
  TCP_WIRE_ONLY();
  Attacked scene(target());
  Buffer large(scene.fabric, 8 << 20);
  Context sent;
  ASSERT_EQ(scene.victim->send(large, large.size(), &sent), 0);
  expect_exchange(scene.bystanders);
  EXPECT_TRUE(scene.victim->tx().stays_silent(milliseconds(50)));
  scene.attacker.close();
  EXPECT_NE(scene.victim->tx().wait().err(), 0);
  scene.expect_ended();
}

// Messages without a receive are kept, up to a limit; the stream then stops in the middle. A send that fails meanwhile
// must not discard those that have arrived.
TEST_P(HostileData, SendErrorLosesNoMessageThatHasArrived) {
  TCP_WIRE_ONLY();
  constexpr size_t kCount = 72;  // a few more than are kept
  const std::string large(4000, 'm');
  for (bool done = false; !done;) {
    Attacked scene(target(), false);
    for (size_t i = 0; i < kCount; ++i) ASSERT_TRUE(scene.attacker.write(message(large)));
    for (int unsent = 1; unsent != 0;) {
      driver::poke();
      ASSERT_EQ(ioctl(scene.attacker.fd(), SIOCOUTQ, &unsent), 0);
    }
    scene.attacker.close();
    const auto closed = Clock::now();
    Context sent[4], received;
    for (Context& context : sent) {  // the first is refused by the closed socket, later ones fail
      scene.victim->send(scene.in, 4, &context);
      driver::poke();
    }
    size_t arrived = 0;
    for (; arrived < kCount && scene.victim->recv(scene.in, kSize, &received) == 0; ++arrived)
      if (!scene.victim->rx().wait().ok()) break;
    // Messages without a receive are dropped a second after the end.
    done = Clock::now() - closed < milliseconds(900) || arrived == kCount;
    if (done) {
      EXPECT_EQ(arrived, kCount);
    }
  }
}

}  // namespace hostile_data
