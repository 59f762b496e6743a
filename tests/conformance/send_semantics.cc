// SPDX-License-Identifier: BSD-2-Clause
// Operation flags of sends: completion levels, FI_MORE, FI_FENCE, FI_INJECT, aliases and defaults; fi_msg(3),
// fi_endpoint(3), COMPLETION EVENT SEMANTICS of fi_cq(3).
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <thread>

#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/node.h"

namespace send_semantics {

CONFORMANCE_TOPIC(SendSemantics);

namespace {

// fi_sendmsg of the first `length` bytes with `flags`.
ssize_t send_with(Node& node, Buffer& buffer, size_t length, uint64_t flags, void* context) {
  const iovec iov{buffer.data(), length};
  void* desc = buffer.desc();
  const fi_msg message{&iov, &desc, 1, node.peer, context, 0};
  return retry([&] { return fi_sendmsg(node.ep(), &message, flags); });
}

constexpr size_t kSize = 128;

struct Scene {
  explicit Scene(const Target& target, const HintsEditor& edit = {})
      : fabric(target, edit), pair(fabric), out(fabric, kSize), in(fabric, kSize) {}
  Fabric fabric;
  Pair pair;
  Buffer out, in;
  Context sent, received;
};

void make_thread_safe(fi_info& hints) {
  hints.domain_attr->threading = FI_THREAD_SAFE;
}

// Reads `count` messages, for which it posts receives. Returns how many arrived.
size_t receive_all(Node& node, Buffer& in, size_t length, size_t count) {
  Context received;
  size_t arrived = 0;
  bool posted = false;
  for (const auto deadline = after(kPatience); arrived < count && Clock::now() < deadline;) {
    if (!posted && node.recv(in, length, &received) != 0) break;
    posted = !node.rx().read().ok();
    if (!posted) ++arrived;
  }
  return arrived;
}

void use_no_shared_memory(fid_ep* ep) {
  const bool permitted = false;
  require_ok(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &permitted, sizeof permitted),
             "fi_setopt");
}

}  // namespace

TEST_P(SendSemantics, EveryCompletionLevelCompletes) {
  Scene scene(target());
  for (uint64_t level :
       {uint64_t{FI_INJECT_COMPLETE}, uint64_t{FI_TRANSMIT_COMPLETE}, uint64_t{FI_DELIVERY_COMPLETE}}) {
    if (level == FI_DELIVERY_COMPLETE && target().ep_type == FI_EP_DGRAM) continue;
    ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &scene.received), 0);
    ASSERT_EQ(send_with(scene.pair.a(), scene.out, kSize, level, &scene.sent), 0);
    EXPECT_EQ(scene.pair.b().rx().wait().context(), &scene.received);
    const Completion completion = scene.pair.a().tx().wait();
    EXPECT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &scene.sent);
  }
}

TEST_P(SendSemantics, DeliveryCompleteMeansTheDataIsInTheBuffer) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "applies to reliable endpoints";
  Scene scene(target());
  for (unsigned round = 0; round < 20; ++round) {
    scene.out.fill_pattern(round);
    ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &scene.received), 0);
    ASSERT_EQ(send_with(scene.pair.a(), scene.out, kSize, FI_DELIVERY_COMPLETE, &scene.sent), 0);
    ASSERT_EQ(scene.pair.a().tx().wait().context(), &scene.sent);
    EXPECT_TRUE(scene.in.holds_pattern(round, kSize)) << "looked before the receive completion was read";
    ASSERT_EQ(scene.pair.b().rx().wait().context(), &scene.received);
  }
}

TEST_P(SendSemantics, DeliveryCompleteDoesNotComeBeforeTheReceiveIsPosted) {
  if (target().ep_type != FI_EP_MSG) GTEST_SKIP() << "providers may buffer on other endpoint types";
  Scene scene(target());
  ASSERT_EQ(send_with(scene.pair.a(), scene.out, kSize, FI_DELIVERY_COMPLETE, &scene.sent), 0);
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(50)));
  ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &scene.received), 0);
  EXPECT_EQ(scene.pair.a().tx().wait().context(), &scene.sent);
}

TEST_P(SendSemantics, AcknowledgedAndPlainSendsCompleteEachOnce) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "applies to reliable endpoints";
  Scene scene(target());
  constexpr size_t kCount = 30;
  Context sent[kCount], received[kCount];
  for (Context& context : received) ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &context), 0);
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(send_with(scene.pair.a(), scene.out, kSize, i % 3 ? 0 : FI_DELIVERY_COMPLETE, &sent[i]), 0);
  int seen[kCount] = {};
  for (size_t i = 0; i < kCount; ++i) {
    const Completion completion = scene.pair.a().tx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    ++seen[static_cast<Context*>(completion.context()) - sent];
  }
  for (int count : seen) EXPECT_EQ(count, 1);
  for (Context& context : received) EXPECT_EQ(scene.pair.b().rx().wait().context(), &context);
}

TEST_P(SendSemantics, MoreDelaysButNeverWithholds) {
  Scene scene(target());
  constexpr size_t kCount = 8;
  Context sent[kCount], received[kCount];
  for (Context& context : received) ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &context), 0);
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(send_with(scene.pair.a(), scene.out, kSize, i + 1 < kCount ? FI_MORE : 0, &sent[i]), 0);
  for (Context& context : received) EXPECT_EQ(scene.pair.b().rx().wait().context(), &context);
  for (Context& context : sent) EXPECT_EQ(scene.pair.a().tx().wait().context(), &context);
}

TEST_P(SendSemantics, MoreIsEndedByASendWithoutIt) {
  Scene scene(target());
  Context received[2];
  for (Context& context : received) ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &context), 0);
  ASSERT_EQ(send_with(scene.pair.a(), scene.out, kSize, FI_MORE, &scene.sent), 0);
  ASSERT_EQ(scene.pair.a().send(scene.out, kSize, &scene.sent), 0);
  for (Context& context : received) EXPECT_EQ(scene.pair.b().rx().wait().context(), &context);
}

TEST_P(SendSemantics, CallsThatWaitForACounterNeedTheCapability) {
  Scene scene(target());
  if ((scene.fabric.info()->caps & FI_TRIGGER) != 0) GTEST_SKIP() << "the capability is granted";
  const auto counter = open_counter(scene.fabric);
  fi_triggered_context waiting{};
  waiting.event_type = FI_TRIGGER_THRESHOLD;
  waiting.trigger.threshold = {counter.get(), 1};
  const iovec out{scene.out.data(), kSize}, in{scene.in.data(), kSize};
  void* desc[] = {scene.out.desc(), scene.in.desc()};
  const fi_msg sent{&out, &desc[0], 1, scene.pair.a().peer, &waiting, 0};
  const fi_msg received{&in, &desc[1], 1, FI_ADDR_UNSPEC, &waiting, 0};
  EXPECT_EQ(fi_sendmsg(scene.pair.a().ep(), &sent, FI_TRIGGER | FI_COMPLETION), -FI_EBADFLAGS);
  EXPECT_EQ(fi_recvmsg(scene.pair.b().ep(), &received, FI_TRIGGER | FI_COMPLETION), -FI_EBADFLAGS);
}

// A provider that has learned that an application returns for progress at once must not hold its messages back when it
// stops doing so.
TEST_P(SendSemantics, LongMessagesDoNotWaitForASlowSender) {
  if (target().ep_type != FI_EP_MSG) GTEST_SKIP() << "others may need progress of their own for a long message";
  Fabric ours(target()), theirs(target());
  Listener listener(theirs);
  Node a(ours);
  ASSERT_EQ(a.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  Node b(theirs, {}, request.get());
  ASSERT_EQ(b.accept(), 0);
  b.eq().expect(FI_CONNECTED, b.fid());
  a.eq().expect(FI_CONNECTED, a.fid());
  constexpr size_t kLength = 16 * 1024, kCount = 4;
  Buffer out(ours, kLength), in(theirs, kLength * kCount);
  Context sent[kCount], received[kCount];
  const auto post_burst = [&] {
    for (Context& context : received) ASSERT_EQ(b.recv(in, kLength, &context), 0);
    for (Context& context : sent) ASSERT_EQ(a.send(out, kLength, &context), 0);
  };
  const auto reap_sends = [&] {
    for (Context& context : sent) ASSERT_EQ(a.tx().wait().context(), &context);
  };
  for (int i = 0; i < 20; ++i) {
    post_burst();
    reap_sends();
    for (Context& context : received) ASSERT_EQ(b.rx().wait().context(), &context);
  }
  post_burst();
  std::this_thread::sleep_for(milliseconds(5));
  reap_sends();
  for (Context& context : received) ASSERT_EQ(b.rx().wait().context(), &context);

  post_burst();
  const auto deadline = after(kPatience);
  for (Context& context : received) {
    Completion arrived = b.rx().read();
    while (arrived.rc == -FI_EAGAIN && Clock::now() < deadline) arrived = b.rx().read();
    ASSERT_TRUE(arrived.ok()) << "without progress at the sender: " << arrived;
    EXPECT_EQ(arrived.context(), &context);
  }
  reap_sends();
}

TEST_P(SendSemantics, InjectFlagFreesTheBufferAtOnceAndStillCompletes) {
  Scene scene(target());
  const size_t length = std::min(kSize, scene.fabric.info()->tx_attr->inject_size);
  scene.out.fill_pattern(3);
  ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &scene.received), 0);
  ASSERT_EQ(send_with(scene.pair.a(), scene.out, length, FI_INJECT, &scene.sent), 0);
  scene.out.fill_pattern(4);
  EXPECT_EQ(scene.pair.b().rx().wait().context(), &scene.received);
  EXPECT_TRUE(scene.in.holds_pattern(3, length));
  EXPECT_EQ(scene.pair.a().tx().wait().context(), &scene.sent) << "unlike fi_inject";
}

TEST_P(SendSemantics, FencedSendWaitsForEarlierOperations) {
  const HintsEditor with_fence = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA | FI_FENCE; };
  NEEDS(with_fence, "FI_FENCE");
  Fabric fabric(target(), with_fence);
  Pair pair(fabric);
  constexpr size_t kLarge = 1 << 20;
  Buffer remote(fabric, kLarge, 'r', FI_REMOTE_READ), local(fabric, kLarge, 0, FI_READ), note(fabric, 8), in(fabric, 8);
  Context read, sent, received;
  ASSERT_EQ(pair.b().recv(in, 8, &received), 0);
  ASSERT_EQ(retry([&] {
              return fi_read(pair.a().ep(), local.data(), kLarge, local.desc(), pair.a().peer, remote.remote_address(),
                             remote.key(), &read);
            }),
            0);
  ASSERT_EQ(send_with(pair.a(), note, 8, FI_FENCE, &sent), 0);
  EXPECT_EQ(pair.a().tx().wait().context(), &read) << "the read completes first";
  EXPECT_EQ(local.data()[kLarge - 1], 'r');
  EXPECT_EQ(pair.a().tx().wait().context(), &sent);
  EXPECT_EQ(pair.b().rx().wait().context(), &received);
}

TEST_P(SendSemantics, DefaultFlagsOfTheInfoApplyToPlainSends) {
  Fabric fabric(target());
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "applies to reliable endpoints";
  const InfoPtr info = fabric.duplicate_info();
  info->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  if (!target().connected()) GTEST_SKIP() << "needs an endpoint of its own info on the asking side";
  Listener listener(fabric);
  Node client(fabric, {}, info.get());
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  Buffer out(fabric, 8), in(fabric, 8);
  Context sent, received;
  ASSERT_EQ(client.send(out, 8, &sent), 0);
  EXPECT_TRUE(client.tx().stays_silent(milliseconds(50))) << "nothing was delivered yet";
  ASSERT_EQ(answerer.recv(in, 8, &received), 0);
  EXPECT_EQ(client.tx().wait().context(), &sent);
}

TEST_P(SendSemantics, OperationFlagsCanBeReadAndChanged) {
  Scene scene(target());
  uint64_t flags = FI_TRANSMIT;
  ASSERT_EQ(fi_control(scene.pair.a().fid(), FI_GETOPSFLAG, &flags), 0);
  uint64_t wanted = FI_TRANSMIT | FI_TRANSMIT_COMPLETE;
  ASSERT_EQ(fi_control(scene.pair.a().fid(), FI_SETOPSFLAG, &wanted), 0);
  flags = FI_TRANSMIT;
  ASSERT_EQ(fi_control(scene.pair.a().fid(), FI_GETOPSFLAG, &flags), 0);
  EXPECT_EQ(flags, FI_TRANSMIT_COMPLETE) << "FI_TRANSMIT is no flag of an operation";
  expect_exchange(scene.pair);
}

TEST_P(SendSemantics, RoomInTheQueuesIsReported) {
  Scene scene(target());
  const ssize_t room = fi_rx_size_left(scene.pair.a().ep());
  ASSERT_GT(room, 0);
  EXPECT_GT(fi_tx_size_left(scene.pair.a().ep()), 0);
  for (ssize_t i = 0; i < std::min<ssize_t>(room, 64); ++i)
    ASSERT_EQ(fi_recv(scene.pair.a().ep(), scene.in.data(), kSize, scene.in.desc(), FI_ADDR_UNSPEC, &scene.received),
              0);
}

TEST_P(SendSemantics, LengthsThatAddUpBeyondTheirTypeAreRefused) {
  Fabric fabric(target());
  if (fabric.info()->tx_attr->iov_limit < 2) GTEST_SKIP() << "one buffer for each message";
  Pair pair(fabric);
  Buffer out(fabric, 64);
  Context context;
  const iovec pieces[] = {{out.data(), SIZE_MAX - 7}, {out.data(), 40}};
  void* desc[] = {out.desc(), out.desc()};
  const ssize_t rc = fi_sendv(pair.a().ep(), pieces, desc, 2, pair.a().peer, &context);
  EXPECT_TRUE(rc == -FI_EINVAL || rc == -FI_EMSGSIZE) << rc;
  expect_exchange(pair);
}

// FI_FENCE: an operation, and those behind it, wait for all that were posted for the same peer before it.
TEST_P(SendSemantics, FencedOperationsWaitForThoseBeforeThem) {
  if (target().ep_type != FI_EP_RDM) GTEST_SKIP() << "one that waits for its receiver is needed: FI_EP_RDM";
  const HintsEditor fences = [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED | FI_FENCE; };
  if (!Fabric::offers(target(), fences)) GTEST_SKIP() << "no FI_FENCE";
  Fabric fabric(target(), fences);
  Pair pair(fabric);
  expect_exchange(pair);
  constexpr size_t kLong = 300'000;
  Buffer out(fabric, kLong), in(fabric, kLong);
  Context sends[4], receives[4];
  const iovec iov{out.data(), 64};
  void* desc = out.desc();
  // The long one has no receive yet; the others do.
  for (uint64_t tag = 1; tag < 4; ++tag) ASSERT_EQ(pair.b().trecv(in, 64, tag, 0, &receives[tag]), 0);
  ASSERT_EQ(pair.a().tsend(out, kLong, 0, &sends[0]), 0);
  if (!pair.a().tx().stays_silent()) GTEST_SKIP() << "long messages do not wait for their receiver here";
  ASSERT_EQ(pair.a().tsend(out, 64, 1, &sends[1]), 0);
  const fi_msg_tagged fenced{&iov, &desc, 1, pair.a().peer, 2, 0, &sends[2], 0};
  ASSERT_EQ(retry([&] { return fi_tsendmsg(pair.a().ep(), &fenced, FI_FENCE | FI_COMPLETION); }), 0);
  ASSERT_EQ(pair.a().tsend(out, 64, 3, &sends[3]), 0);
  const Completion before = pair.b().rx().wait();
  ASSERT_TRUE(before.ok()) << before;
  EXPECT_EQ(before.context(), &receives[1]);
  EXPECT_TRUE(pair.b().rx().stays_silent()) << "the fence was passed";
  ASSERT_EQ(pair.b().trecv(in, kLong, 0, 0, &receives[0]), 0);
  for (int i = 0; i < 3; ++i) {
    const Completion arrival = pair.b().rx().wait();
    EXPECT_TRUE(arrival.ok()) << arrival;
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(pair.a().tx().wait().ok());
}

// A message that waits for its receive goes before the fenced operations behind it, also once its receive is posted.
TEST_P(SendSemantics, FencedOperationsArriveBehindTheMessageThatTheyWaitFor) {
  if (target().ep_type != FI_EP_RDM) GTEST_SKIP() << "one that waits for its receiver is needed: FI_EP_RDM";
  const HintsEditor fences = [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_FENCE; };
  if (!Fabric::offers(target(), fences)) GTEST_SKIP() << "no FI_FENCE beside FI_TAGGED and FI_RMA";
  Fabric fabric(target(), fences);
  for (const bool writes : {false, true}) {
    if (writes && fabric.info()->domain_attr->cq_data_size == 0) continue;
    for (const bool early : {false, true}) {
      SCOPED_TRACE(std::string(writes ? "write" : "message") + (early ? ", posted before the receive" : ", after it"));
      Pair pair(fabric);
      expect_exchange(pair);
      constexpr size_t kLong = 400'000;
      Buffer out(fabric, kLong, 'l', FI_SEND | FI_WRITE), in(fabric, kLong), short_in(fabric, 64);
      Buffer remote(fabric, 64, 'r', FI_REMOTE_WRITE);
      Context waits, received, fenced, behind;
      ASSERT_EQ(pair.b().trecv(short_in, 64, 2, 0, &behind), 0);
      ASSERT_EQ(pair.a().tsend(out, kLong, 1, &waits), 0);
      if (!pair.a().tx().stays_silent()) GTEST_SKIP() << "long messages do not wait for their receiver here";
      const auto post = [&] {
        const iovec iov{out.data(), 64};
        void* desc = out.desc();
        const fi_rma_iov place{remote.remote_address(), 64, remote.key()};
        const fi_msg_tagged message{&iov, &desc, 1, pair.a().peer, 2, 0, &fenced, 0};
        const fi_msg_rma write{&iov, &desc, 1, pair.a().peer, &place, 1, &fenced, 7};
        return retry([&] {
          return writes ? fi_writemsg(pair.a().ep(), &write, FI_FENCE | FI_COMPLETION | FI_REMOTE_CQ_DATA)
                        : fi_tsendmsg(pair.a().ep(), &message, FI_FENCE | FI_COMPLETION);
        });
      };
      if (early) {
        ASSERT_EQ(post(), 0);
      }
      EXPECT_TRUE(pair.b().rx().stays_silent()) << "the fence was passed";
      ASSERT_EQ(pair.b().trecv(in, kLong, 1, 0, &received), 0);
      if (!early) {
        ASSERT_EQ(post(), 0);
      }
      const Completion first = pair.b().rx().wait(), second = pair.b().rx().wait();
      ASSERT_TRUE(first.ok() && second.ok()) << first << second;
      EXPECT_EQ(first.context(), &received) << "the fenced operation overtook the message";
      EXPECT_EQ(first.entry.len, kLong);
      if (writes) {
        EXPECT_NE(second.entry.flags & FI_REMOTE_WRITE, 0u);
      } else {
        EXPECT_EQ(second.context(), &behind);
      }
      EXPECT_EQ(pair.a().tx().wait().context(), &waits);
      EXPECT_EQ(pair.a().tx().wait().context(), &fenced);
    }
  }
}

TEST_P(SendSemantics, InjectedMessagesThatAreNotReportedArriveAlthoughTheirEndpointCloses) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  Fabric theirs(target(), make_thread_safe), ours(target(), make_thread_safe);
  DatagramEnd receiver(theirs);
  NodeOptions selective;
  selective.tx_flags = FI_SELECTIVE_COMPLETION;
  auto sender = std::make_unique<DatagramEnd>(ours, selective);
  (*sender)->peer = sender->insert(receiver.address());
  Buffer in(theirs, kSize), out(ours, kSize);
  Context sent;
  ASSERT_EQ(send_with(**sender, out, kSize, FI_INJECT, &sent), 0);
  std::thread closing([&] { sender.reset(); });
  EXPECT_EQ(receive_all(*receiver, in, kSize, 1), 1U);
  closing.join();
}

// A second for all of them.
TEST_P(SendSemantics, ClosingDoesNotWaitForEachPeerThatReadsNothing) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  constexpr size_t kPeers = 4, kSize = 4000;
  constexpr int kTries = 20;
  Fabric theirs(target()), ours(target());
  NodeOptions apart;
  apart.configure = use_no_shared_memory;
  auto sender = std::make_unique<DatagramEnd>(ours, apart);
  Buffer in(theirs, kSize), out(ours, kSize);
  std::deque<DatagramEnd> receivers;
  for (size_t i = 0; i < kPeers; ++i) {
    DatagramEnd& receiver = receivers.emplace_back(theirs, apart);
    const fi_addr_t peer = sender->insert(receiver.address());
    Context received;
    ASSERT_EQ(receiver->recv(in, kSize, &received), 0);
    const auto inject = [&] { return fi_inject((*sender)->ep(), out.data(), kSize, peer); };
    ASSERT_EQ(retry(inject), 0);
    ASSERT_TRUE(receiver->rx().wait().ok());
    for (int refused = 0; refused < kTries;) refused += inject() != 0;
  }
  const auto start = Clock::now();
  sender.reset();
  EXPECT_LT(elapsed_ms(start), 2500);
}

// The socket has taken a part of the last one.
TEST_P(SendSemantics, InjectedMessagesOfAFullSocketArriveAlthoughTheirEndpointCloses) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  constexpr size_t kLongest = 8000;
  constexpr int kTries = 20;
  Fabric theirs(target(), make_thread_safe), ours(target(), make_thread_safe);
  NodeOptions apart;
  apart.configure = use_no_shared_memory;
  DatagramEnd receiver(theirs, apart);
  auto sender = std::make_unique<DatagramEnd>(ours, apart);
  const fi_addr_t peer = sender->insert(receiver.address());
  const size_t length = std::min(kLongest, ours.info()->tx_attr->inject_size);
  Buffer in(theirs, length), out(ours, length);
  const auto inject = [&] { return fi_inject((*sender)->ep(), out.data(), length, peer); };
  Context received;
  ASSERT_EQ(receiver->recv(in, length, &received), 0);
  ASSERT_EQ(retry(inject), 0);
  ASSERT_TRUE(receiver->rx().wait().ok());
  size_t taken = 0;
  for (int refused = 0; refused < kTries;) inject() == 0 ? void(++taken) : void(++refused);
  std::thread closing([&] { sender.reset(); });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(receive_all(*receiver, in, length, taken), taken);
  closing.join();
}

}  // namespace send_semantics
