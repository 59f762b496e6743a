// SPDX-License-Identifier: BSD-2-Clause
// Completion queues hold all outstanding operations of their endpoints, whichever size they were opened with; work
// queues have the size of the attributes, and a queue interrupts the chosen processor; fi_cq(3), fi_endpoint(3).
#include "fixture/driver.h"
#include "fixture/node.h"

namespace queue_depth {

CONFORMANCE_TOPIC(QueueDepth);

namespace {

constexpr size_t kPairs = 6, kEach = 60, kSize = 64;

// Endpoints that all complete into one queue of the smallest size.
struct Crowd {
  explicit Crowd(const Target& target) : fabric(target), out(fabric, kSize), in(fabric, kSize) {
    fi_cq_attr attr{};
    attr.size = 1;
    attr.format = FI_CQ_FORMAT_TAGGED;
    queue = std::make_unique<CompletionQueue>(fabric, attr);
    Listener listener(fabric);
    for (size_t i = 0; i < kPairs; ++i) {
      eqs.push_back(std::make_unique<EventQueue>(fabric));
      clients.push_back(make(fabric.info(), *eqs.back()));
      require_ok(fi_connect(clients.back().get(), listener.address().get(), nullptr, 0), "fi_connect");
      const InfoPtr request = listener.next_request();
      eqs.push_back(std::make_unique<EventQueue>(fabric));
      answerers.push_back(make(request.get(), *eqs.back()));
      require_ok(fi_accept(answerers.back().get(), nullptr, 0), "fi_accept");
      eqs[2 * i]->expect(FI_CONNECTED, &clients.back()->fid);
      eqs[2 * i + 1]->expect(FI_CONNECTED, &answerers.back()->fid);
    }
  }
  ~Crowd() {
    clients.clear();
    answerers.clear();
  }
  Handle<fid_ep> make(fi_info* info, EventQueue& eq) {
    auto ep = opened<fid_ep>("fi_endpoint", [&](fid_ep** e) { return fi_endpoint(fabric.domain(), info, e, nullptr); });
    require_ok(fi_ep_bind(ep.get(), eq.fid(), 0), "fi_ep_bind");
    require_ok(fi_ep_bind(ep.get(), queue->fid(), FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    return ep;
  }

  Fabric fabric;
  Buffer out, in;
  std::unique_ptr<CompletionQueue> queue;
  std::vector<std::unique_ptr<EventQueue>> eqs;
  std::vector<Handle<fid_ep>> clients, answerers;
};

}  // namespace

TEST_P(QueueDepth, OneSmallQueueServesManyEndpoints) {
  CONNECTED_ONLY();
  Crowd crowd(target());
  std::vector<Context> contexts(2 * kPairs * kEach);
  size_t next = 0;
  for (auto& ep : crowd.answerers) {
    for (size_t i = 0; i < kEach; ++i) {
      Context& context = contexts[next++];
      ASSERT_EQ(fi_recv(ep.get(), crowd.in.data(), kSize, crowd.in.desc(), FI_ADDR_UNSPEC, &context), 0) << next;
    }
  }
  for (size_t i = 0; i < kEach; ++i)
    for (auto& ep : crowd.clients)
      ASSERT_EQ(fi_send(ep.get(), crowd.out.data(), kSize, crowd.out.desc(), FI_ADDR_UNSPEC, &contexts[next++]), 0)
          << "all of them fit without reading the queue";
  std::vector<int> seen(contexts.size(), 0);
  for (size_t i = 0; i < contexts.size(); ++i) {
    const Completion completion = crowd.queue->wait();
    ASSERT_TRUE(completion.ok()) << i << ": " << completion;
    ++seen[static_cast<size_t>(static_cast<Context*>(completion.context()) - contexts.data())];
  }
  for (int count : seen) ASSERT_EQ(count, 1);
}

TEST_P(QueueDepth, ReceivesUpToTheAttributeCanBePosted) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  Buffer in(fabric, kSize);
  const size_t size = fabric.info()->rx_attr->size;
  std::vector<Context> received(size + 1);
  for (size_t i = 0; i < size; ++i)
    ASSERT_EQ(fi_recv(pair.a().ep(), in.data(), kSize, in.desc(), FI_ADDR_UNSPEC, &received[i]), 0) << i;
  pair.a().close();
  for (size_t i = 0; i < size; ++i) {
    const Completion completion = pair.a().rx().read();
    ASSERT_EQ(completion.context(), &received[i]) << completion;
    ASSERT_EQ(completion.err(), FI_ECANCELED);
  }
}

TEST_P(QueueDepth, SilentSendersFindRoomWithoutReading) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  Buffer in(fabric, kSize);
  const size_t count = 3 * fabric.info()->tx_attr->size;
  Context received;
  size_t posted = 0, arrived = 0, sent = 0;
  const auto deadline = after(10 * kPatience);
  while (arrived < count && Clock::now() < deadline) {
    while (posted < count && posted - arrived < 32) {
      ASSERT_EQ(pair.b().recv(in, kSize, &received), 0);
      ++posted;
    }
    // Only the receiving side makes progress: the sender requests no completions and reads no queue.
    if (sent < count) {
      const ssize_t rc = fi_inject(pair.a().ep(), "x", 1, pair.a().peer);
      ASSERT_TRUE(rc == 0 || rc == -FI_EAGAIN) << rc;
      sent += rc == 0;
    }
    arrived += pair.b().rx().read().ok();
  }
  EXPECT_EQ(arrived, count);
}

TEST_P(QueueDepth, InterruptsCanBeSpread) {
  Fabric fabric(target());
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_TAGGED;
  attr.flags = FI_AFFINITY;
  attr.signaling_vector = 0;
  fid_cq* cq = nullptr;
  ASSERT_EQ(fi_cq_open(fabric.domain(), &attr, &cq, nullptr), 0);
  EXPECT_EQ(fi_close(&cq->fid), 0);
  if (!fabric.has(FI_MR_ALLOCATED)) GTEST_SKIP() << "only devices have interrupts";
  cq = nullptr;
  attr.signaling_vector = 1 << 20;
  EXPECT_EQ(fi_cq_open(fabric.domain(), &attr, &cq, nullptr), -FI_EINVAL);
  attr.signaling_vector = -1;
  EXPECT_EQ(fi_cq_open(fabric.domain(), &attr, &cq, nullptr), -FI_EINVAL);
  EXPECT_EQ(cq, nullptr);
}

TEST_P(QueueDepth, QueuesWithAnInterruptServeEndpoints) {
  Fabric fabric(target());
  NodeOptions options;
  for (fi_cq_attr* attr : {&options.tx_cq, &options.rx_cq}) {
    attr->format = FI_CQ_FORMAT_TAGGED;
    attr->flags = FI_AFFINITY;
    attr->signaling_vector = 0;
  }
  Pair pair(fabric, options);
  expect_exchange(pair);
}

}  // namespace queue_depth
