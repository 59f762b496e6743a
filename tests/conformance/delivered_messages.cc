// SPDX-License-Identifier: BSD-2-Clause
// Messages of reliable datagrams with FI_DELIVERY_COMPLETE, while only their sender makes progress, and then the peer;
// COMPLETION EVENT SEMANTICS of fi_cq(3).
#include <rdma/fi_tagged.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/intruder.h"
#include "fixture/member.h"
#include "fixture/process.h"

namespace delivered_messages {

CONFORMANCE_TOPIC(DeliveredMessages);

namespace {

constexpr size_t kLongest = 300'000;
constexpr uint64_t kTag = 5;

// Two ends that are connected. They have nothing in common, so the progress of one is not that of the other.
struct Scene {
  explicit Scene(const Target& target, const HintsEditor& edit = {}, const NodeOptions& sender = {})
      : fabrics{Fabric(target, edit), Fabric(target, edit)}, a(fabrics[0], sender), b(fabrics[1]) {
    a->peer = a.insert(b.address());
    b->peer = b.insert(a.address());
    expect_round_trip(*a, *b);
    expect_round_trip(*b, *a);
  }

  Fabric fabrics[2];
  DatagramEnd a, b;
  Buffer out{fabrics[0], kLongest}, in{fabrics[1], kLongest};
  Context sent, received;
};

void deliver_by_default(fi_info& hints) {
  hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE;
}

struct Kind {
  const char* name;
  size_t most;  // bytes
  std::function<ssize_t(Scene&, size_t)> send;
  bool tagged = false;
};

ssize_t send_message(Scene& scene, size_t length, uint64_t flags, uint64_t data = 0) {
  const iovec iov[] = {{scene.out.data(), length / 3}, {scene.out.data() + length / 3, length - length / 3}};
  void* const descs[] = {scene.out.desc(), scene.out.desc()};
  const fi_msg message{iov, const_cast<void**>(descs), 2, scene.a->peer, &scene.sent, data};
  return fi_sendmsg(scene.a->ep(), &message, flags | FI_DELIVERY_COMPLETE);
}

ssize_t send_tagged(Scene& scene, size_t length, uint64_t flags) {
  const iovec iov{scene.out.data(), length};
  void* desc = scene.out.desc();
  const fi_msg_tagged message{&iov, &desc, 1, scene.a->peer, kTag, 0, &scene.sent, 0};
  return fi_tsendmsg(scene.a->ep(), &message, flags | FI_DELIVERY_COMPLETE);
}

const Kind kKinds[] = {
    {"message", kLongest, [](Scene& scene, size_t length) { return send_message(scene, length, 0); }},
    {"message with data", kLongest,
     [](Scene& scene, size_t length) { return send_message(scene, length, FI_REMOTE_CQ_DATA, 7); }},
    {"injected message", 16'384, [](Scene& scene, size_t length) { return send_message(scene, length, FI_INJECT); }},
    {"fenced message", kLongest, [](Scene& scene, size_t length) { return send_message(scene, length, FI_FENCE); }},
    {"tagged message", kLongest, [](Scene& scene, size_t length) { return send_tagged(scene, length, 0); }, true},
    {"injected tagged message", 16'384,
     [](Scene& scene, size_t length) { return send_tagged(scene, length, FI_INJECT); }, true},
};

void post_receive(Scene& scene, bool tagged) {
  ASSERT_EQ(tagged ? scene.b->trecv(scene.in, kLongest, kTag, 0, &scene.received)
                   : scene.b->recv(scene.in, kLongest, &scene.received),
            0);
}

// The next completion, while others drive the other queues.
Completion read_alone(CompletionQueue& queue) {
  Completion found;
  for (const auto end = after(kPatience); found.rc == -FI_EAGAIN && Clock::now() < end; std::this_thread::yield())
    found = queue.read();
  return found;
}

// Only the sender makes progress for a while, then the peer too. The message is in its receive once `completed`.
void expect_in_place_when(const std::function<bool()>& completed, Scene& scene, unsigned seed, size_t length) {
  for (const auto end = after(milliseconds(10)); Clock::now() < end;)
    if (completed()) {
      ASSERT_TRUE(scene.in.holds_pattern(seed, length)) << "it completed before the peer made progress";
      break;
    }
  for (const auto end = after(kPatience); !completed() && Clock::now() < end;) scene.b->tx().read();
  ASSERT_TRUE(completed());
  ASSERT_TRUE(scene.in.holds_pattern(seed, length));
}

}  // namespace

TEST_P(DeliveredMessages, AreInTheirReceiveWhenTheirSendsComplete) {
  RELIABLE_DATAGRAMS_ONLY();
  Scene scene(target());
  unsigned seed = 0;
  for (const Kind& kind : kKinds)
    for (const size_t length : {1ul, 200ul, 5000ul, 16'384ul, 16'385ul, 120'000ul, kLongest}) {
      SCOPED_TRACE(std::string(kind.name) + ", " + std::to_string(length));
      if (length > kind.most) continue;
      scene.out.fill_pattern(++seed);
      ASSERT_NO_FATAL_FAILURE(post_receive(scene, kind.tagged));
      ASSERT_EQ(retry([&] { return kind.send(scene, length); }), 0);
      Completion done;
      const auto completed = [&] {
        if (done.rc == -FI_EAGAIN) done = scene.a->tx().read();
        return done.rc != -FI_EAGAIN;
      };
      ASSERT_NO_FATAL_FAILURE(expect_in_place_when(completed, scene, seed, length));
      EXPECT_TRUE(done.ok()) << done;
      const Completion arrival = scene.b->rx().wait();
      ASSERT_TRUE(arrival.ok()) << arrival;
      EXPECT_EQ(arrival.context(), &scene.received);
      EXPECT_EQ(arrival.entry.len, length);
    }
}

// Completions that another thread looks for at the same time.
TEST_P(DeliveredMessages, AreInTheirReceiveForAnyThread) {
  RELIABLE_DATAGRAMS_ONLY();
  if (kSanitized) GTEST_SKIP() << "the order comes through memory that sanitizers do not see";
  Scene scene(target());
  std::atomic<bool> done = false;
  std::thread peer([&] {
    for (; !done; std::this_thread::yield()) fi_cq_read(scene.b->tx().get(), nullptr, 0);
  });
  const auto exchange = [&] {
    constexpr size_t kLength = 16'384;
    for (unsigned round = 0; round < 300; ++round) {
      std::memset(scene.out.data(), static_cast<int>(round), kLength);
      ASSERT_NO_FATAL_FAILURE(post_receive(scene, true));
      ASSERT_EQ(send_tagged(scene, kLength, 0), 0);
      const Completion sent = read_alone(scene.a->tx());
      ASSERT_TRUE(sent.ok()) << sent;
      ASSERT_EQ(std::memcmp(scene.in.data(), scene.out.data(), kLength), 0) << round;
      const Completion arrival = read_alone(scene.b->rx());
      ASSERT_TRUE(arrival.ok()) << arrival;
    }
  };
  exchange();
  done = true;
  peer.join();
}

TEST_P(DeliveredMessages, WithoutAReceiveCompleteAtThePeersEndpoint) {
  RELIABLE_DATAGRAMS_ONLY();
  Scene scene(target());
  unsigned seed = 0;
  for (const size_t length : {0ul, 200ul, 5000ul, 16'384ul}) {
    SCOPED_TRACE(length);
    scene.out.fill_pattern(++seed);
    ASSERT_EQ(retry([&] { return send_tagged(scene, length, 0); }), 0);
    EXPECT_TRUE(scene.a->tx().wait().ok());
    Context peek;
    const fi_msg_tagged wanted{nullptr, nullptr, 0, FI_ADDR_UNSPEC, kTag, 0, &peek, 0};
    ASSERT_EQ(fi_trecvmsg(scene.b->ep(), &wanted, FI_PEEK), 0);
    const Completion found = scene.b->rx().read();
    ASSERT_TRUE(found.ok()) << found;
    EXPECT_EQ(found.entry.len, length);
    ASSERT_NO_FATAL_FAILURE(post_receive(scene, true));
    EXPECT_TRUE(scene.b->rx().wait().ok());
    EXPECT_TRUE(scene.in.holds_pattern(seed, length));
  }
}

TEST_P(DeliveredMessages, ThatTheirPeerNeverSawFail) {
  RELIABLE_DATAGRAMS_ONLY();
  for (const size_t length : {1ul, 5000ul, 120'000ul}) {
    SCOPED_TRACE(length);
    Scene scene(target());
    ASSERT_NO_FATAL_FAILURE(post_receive(scene, true));
    scene.out.fill_pattern(9);
    ASSERT_EQ(retry([&] { return send_tagged(scene, length, 0); }), 0);
    Completion sent;
    for (const auto end = after(milliseconds(10)); sent.rc == -FI_EAGAIN && Clock::now() < end;)
      sent = scene.a->tx().read();
    EXPECT_EQ(sent.rc, -FI_EAGAIN) << "nothing has served it: " << sent;
    scene.b->close();
    while (sent.rc == -FI_EAGAIN && !HasFailure()) sent = scene.a->tx().wait();
    EXPECT_EQ(sent.err(), FI_ECONNRESET) << sent;
    EXPECT_EQ(sent.context(), &scene.sent);
    EXPECT_TRUE(scene.a->tx().stays_silent());
  }
}

TEST_P(DeliveredMessages, OfAPeerThatIsKilledFail) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target(), deliver_by_default);
  DatagramEnd stays(fabric);
  child::Running peer("announce_and_stay",
                      {{"WEFT_CONFORMANCE_PEER", target().address + " " + std::to_string(stays.address().port())}});
  stays.meet_child();
  Buffer out(fabric, 16'384);
  Context first, sent[3];
  ASSERT_EQ(stays->tsend(out, 1, 77, &first), 0);
  ASSERT_TRUE(stays->tx().wait().ok());
  peer.stop();
  const size_t lengths[] = {1, 1000, 16'384};
  for (size_t i = 0; i < 3; ++i) ASSERT_EQ(stays->tsend(out, lengths[i], 77, &sent[i]), 0);
  EXPECT_TRUE(stays->tx().stays_silent());
  peer.kill();
  for (Context& context : sent) {
    const Completion lost = stays->tx().wait(after(std::chrono::seconds(30)));
    EXPECT_EQ(lost.err(), FI_ECONNRESET) << lost;
    EXPECT_EQ(lost.context(), &context);
  }
  EXPECT_TRUE(stays->tx().stays_silent());
}

// A peer that does not announce answers, as libfabric, gets the packets that it has always had.
TEST_P(DeliveredMessages, ToOtherLibrariesAreSentAsBefore) {
  RELIABLE_DATAGRAMS_ONLY();
  if (speaks_tcp()) GTEST_SKIP() << "packets of ofi_rxm only";
  Fabric fabric(target());
  DatagramEnd end(fabric);
  Intruder other(target(), end.address());
  ASSERT_TRUE(other.accepted());
  EXPECT_EQ(other.answer().size(), 16u) << "the acceptance of release 1.17";
  constexpr uint16_t kItsPort = 9;
  Address its_name = end.address();
  its_name.set_port(kItsPort);
  end->peer = end.insert(its_name);
  Buffer out(fabric, 100);
  Context sent;
  const iovec iov{out.data(), out.size()};
  void* desc = out.desc();
  const fi_msg message{&iov, &desc, 1, end->peer, &sent, 0};
  ASSERT_EQ(fi_sendmsg(end->ep(), &message, FI_DELIVERY_COMPLETE), 0);
  std::string packet = other.hear(64 + 100);
  ASSERT_EQ(packet.size(), 64u + 100);
  packet.replace(8, 8, 8, '\0');  // the number of the connection
  EXPECT_EQ(packet.substr(0, 64), packet_of(0, 0, 100, 0));
  EXPECT_TRUE(end->tx().wait().ok());
}

}  // namespace delivered_messages
