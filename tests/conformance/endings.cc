// SPDX-License-Identifier: BSD-2-Clause
// The end of an endpoint: posted = completed + failed + canceled, also for silent operations, counters, stored receives
// and shared contexts; fi_endpoint(3), fi_cq(3), fi_cntr(3).
#include <rdma/fi_rma.h>

#include <map>
#include <memory>
#include <vector>

#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/node.h"
#include "fixture/one_queue.h"

namespace endings {

CONFORMANCE_TOPIC(Endings);

namespace {

constexpr size_t kCount = 40, kSize = 256;

// Reads the entries of a queue: successes and failures by context.
struct Tally {
  std::map<void*, int> completed, failed;
  void read(CompletionQueue& queue) {
    for (;;) {
      const Completion completion = queue.read();
      if (completion.rc == -FI_EAGAIN) return;
      ++(completion.ok() ? completed : failed)[completion.context()];
    }
  }
  int of(void* context) const {
    const auto count = [&](const std::map<void*, int>& list) {
      const auto found = list.find(context);
      return found == list.end() ? 0 : found->second;
    };
    return count(completed) + count(failed);
  }
};

ssize_t send_with(Node& node, Buffer& buffer, uint64_t flags, void* context) {
  const iovec iov{buffer.data(), kSize};
  void* desc = buffer.desc();
  const fi_msg message{&iov, &desc, 1, node.peer, context, 0};
  return retry([&] { return fi_sendmsg(node.ep(), &message, flags); });
}

}  // namespace

TEST_P(Endings, SilentSendsFailAtMostOnceAndOthersCompleteOnce) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  NodeOptions selective;
  selective.tx_flags = FI_SELECTIVE_COMPLETION;
  Pair pair(fabric, selective);
  Buffer out(fabric, kSize), in(fabric, kSize);
  Context received[kCount / 2];
  std::vector<Context> loud(kCount), quiet(kCount);
  for (Context& context : received) ASSERT_EQ(pair.b().recv(in, kSize, &context), 0);  // enough for a quarter
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(send_with(pair.a(), out, 0, &quiet[i]), 0);
    ASSERT_EQ(send_with(pair.a(), out, FI_COMPLETION, &loud[i]), 0);
  }
  for (Context& context : received) ASSERT_EQ(pair.b().rx().wait().context(), &context);
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  Tally tally;
  tally.read(pair.a().tx());
  for (Context& context : loud) EXPECT_EQ(tally.of(&context), 1);
  for (Context& context : quiet) {
    EXPECT_EQ(tally.completed.count(&context), 0u) << "an unrequested completion";
    EXPECT_LE(tally.of(&context), 1);
  }
  EXPECT_EQ(tally.of(nullptr), 0);
}

// As a program does that sends its results and exits. The peer is busy meanwhile, and reads afterwards. What it sends
// by itself then, a proposal to share memory perhaps, must not make the system drop what is still on its way.
TEST_P(Endings, CompletedMessagesArriveAlthoughTheirSenderHasClosed) {
  CONNECTED_ONLY();
  if (!speaks_tcp()) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  constexpr size_t kMessages = 20, kLong = 16'384;
  Fabric theirs(target());
  Listener listener(theirs);
  std::unique_ptr<Node> receiver;
  Buffer in(theirs, kLong);
  {
    Fabric ours(target());
    Node sender(ours);
    ASSERT_EQ(sender.connect(listener.address()), 0);
    const InfoPtr request = listener.next_request();
    receiver = std::make_unique<Node>(theirs, NodeOptions{}, request.get());
    ASSERT_EQ(receiver->accept(), 0);
    receiver->eq().expect(FI_CONNECTED, receiver->fid());
    sender.eq().expect(FI_CONNECTED, sender.fid());
    Buffer out(ours, kLong);
    Context sent;
    size_t posted = 0, completed = 0;
    for (const auto deadline = after(kPatience); completed < kMessages; completed += sender.tx().read().ok()) {
      ASSERT_LT(Clock::now(), deadline) << completed << " have completed";
      while (posted < kMessages && fi_send(sender.ep(), out.data(), kLong, out.desc(), FI_ADDR_UNSPEC, &sent) == 0)
        ++posted;
    }
  }
  Context received;
  for (size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(receiver->recv(in, kLong, &received), 0);
    const Completion arrival = receiver->rx().wait();
    ASSERT_TRUE(arrival.ok()) << i << ": " << arrival;
  }
}

TEST_P(Endings, InjectedMessagesThatWereReceivedAreNotReported) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  Pair pair(fabric, counting(counter.get(), FI_SEND), {});
  Buffer in(fabric, kSize);
  Context received[8];
  for (Context& context : received) {
    ASSERT_EQ(pair.b().recv(in, kSize, &context), 0);
    ASSERT_EQ(retry([&] { return fi_inject(pair.a().ep(), "x", 1, pair.a().peer); }), 0);
    ASSERT_EQ(pair.b().rx().wait().context(), &context);
  }
  ASSERT_TRUE(reaches(counter.get(), std::size(received))) << "all are acknowledged";
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  EXPECT_EQ(pair.a().tx().read().rc, -FI_EAGAIN);
}

TEST_P(Endings, CountersAccountForAllOperations) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  const auto sends = open_counter(fabric);
  const auto receives = open_counter(fabric);
  NodeOptions counted;
  counted.configure = [&](fid_ep* ep) {
    ASSERT_EQ(fi_ep_bind(ep, &sends->fid, FI_SEND), 0);
    ASSERT_EQ(fi_ep_bind(ep, &receives->fid, FI_RECV), 0);
  };
  Pair pair(fabric, counted, {});
  Buffer out(fabric, kSize), in(fabric, kSize);
  std::vector<Context> contexts(2 * kCount), taken(kCount / 2);
  for (Context& context : taken) ASSERT_EQ(pair.b().recv(in, kSize, &context), 0);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(pair.a().send(out, kSize, &contexts[i]), 0);
    ASSERT_EQ(pair.a().recv(in, kSize, &contexts[kCount + i]), 0);
  }
  for (Context& context : taken) ASSERT_EQ(pair.b().rx().wait().context(), &context);
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  EXPECT_EQ(fi_cntr_read(sends.get()) + fi_cntr_readerr(sends.get()), kCount);
  EXPECT_EQ(fi_cntr_read(receives.get()), 0u);
  EXPECT_EQ(fi_cntr_readerr(receives.get()), kCount);
}

TEST_P(Endings, ReceivesOfAnEndpointThatNeverConnectedAreCanceled) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  node.enable();
  Buffer in(fabric, kSize);
  Context received[5];
  for (Context& context : received) ASSERT_EQ(node.recv(in, kSize, &context), 0);
  ASSERT_EQ(fi_cancel(node.fid(), &received[2]), 0);
  EXPECT_EQ(node.rx().read().context(), &received[2]);
  EXPECT_EQ(fi_cancel(node.fid(), &received[2]), -FI_ENOENT) << "only once";
  node.close();
  for (int i : {0, 1, 3, 4}) {
    const Completion completion = node.rx().read();
    EXPECT_EQ(completion.err(), FI_ECANCELED) << completion;
    EXPECT_EQ(completion.context(), &received[i]);
  }
  EXPECT_EQ(node.rx().read().rc, -FI_EAGAIN);
}

TEST_P(Endings, ReceivesPostedBeforeTheConnectionAreFilledInOrder) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  client.enable();
  Buffer in(fabric, 4 * kSize), out(fabric, kSize);
  Context received[4], sent;
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(fi_recv(client.ep(), in.data() + i * kSize, kSize, in.desc(), FI_ADDR_UNSPEC, &received[i]), 0);
  ASSERT_EQ(fi_cancel(client.fid(), &received[1]), 0);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
  EXPECT_EQ(client.rx().wait().context(), &received[1]);
  for (int i : {0, 2, 3}) {
    std::memset(out.data(), 'a' + i, kSize);
    ASSERT_EQ(answerer.send(out, kSize, &sent), 0);
    const Completion completion = client.rx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &received[i]);
    EXPECT_EQ(in.data()[i * kSize], 'a' + i);
    ASSERT_TRUE(answerer.tx().wait().ok());
  }
  for (char byte : std::string(in.data() + kSize, kSize)) ASSERT_EQ(byte, 0) << "the canceled one stays empty";
}

// A server sends a last message on each of its connections, and closes them.
TEST_P(Endings, OneConnectionsEndFollowsTheMessagesThatOthersHadBefore) {
  CONNECTED_ONLY();
  constexpr size_t kEnds = 4, kSettle = 8;
  Fabric fabric(target()), servers_fabric(target());
  Listener listener(servers_fabric);
  OneQueue ends(fabric);
  std::vector<std::unique_ptr<Node>> servers;
  fid_ep* clients[kEnds];
  for (fid_ep*& client : clients) {
    client = ends.open(fabric.info());
    ASSERT_EQ(fi_connect(client, listener.address().get(), nullptr, 0), 0);
    const InfoPtr request = listener.next_request();
    servers.push_back(std::make_unique<Node>(servers_fabric, NodeOptions{}, request.get()));
    ASSERT_EQ(servers.back()->accept(), 0);
    fid_t connected = nullptr;
    ASSERT_EQ(ends.next_event(connected), FI_CONNECTED);
    servers.back()->eq().expect(FI_CONNECTED, servers.back()->fid());
  }
  Buffer out(servers_fabric, 64);
  Context settling, last[kEnds], left, sent;
  fi_cq_msg_entry entry{};
  for (size_t i = 0; i < kSettle; ++i) {  // the first connection is the busy one
    ASSERT_EQ(ends.receive(clients[0], &settling), 0);
    ASSERT_EQ(servers[0]->send(out, 64, &sent), 0);
    ASSERT_TRUE(servers[0]->tx().wait().ok());
    ASSERT_EQ(retry([&] { return fi_cq_read(ends.cq(), &entry, 1); }), 1);
  }
  for (size_t i = 0; i < kEnds; ++i) ASSERT_EQ(ends.receive(clients[i], &last[i]), 0);
  ASSERT_EQ(ends.receive(clients[0], &left), 0);
  for (const auto& server : servers) {
    ASSERT_EQ(server->send(out, 64, &sent), 0);
    ASSERT_TRUE(server->tx().wait().ok());
  }
  for (const auto& server : servers) server->close();
  for (size_t i = 0; i < kEnds; ++i)
    ASSERT_EQ(retry([&] { return fi_cq_read(ends.cq(), &entry, 1); }), 1) << "message " << i;
  EXPECT_EQ(retry([&] { return fi_cq_read(ends.cq(), &entry, 1); }), -FI_EAVAIL);
  fi_cq_err_entry error{};
  EXPECT_EQ(fi_cq_readerr(ends.cq(), &error, 0), 1);
  EXPECT_EQ(error.op_context, &left);
}

TEST_P(Endings, EntriesOutliveTheirEndpoint) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Buffer in(fabric, kSize);
  Context received;
  for (int round = 0; round < 10; ++round) {
    Pair pair(fabric);
    for (int i = 0; i < 8; ++i) ASSERT_EQ(pair.a().recv(in, kSize, &received), 0);
    expect_round_trip(pair.a(), pair.b(), 16);
    pair.a().close();
    for (int i = 0; i < 8; ++i) EXPECT_EQ(pair.a().rx().read().err(), FI_ECANCELED);
    EXPECT_EQ(pair.a().rx().read().rc, -FI_EAGAIN);
  }
}

}  // namespace endings
