// SPDX-License-Identifier: BSD-2-Clause
// Shared transmit and receive contexts: offers, bindings and their time, the order of closing, several threads;
// fi_endpoint(3), fi_ep_bind and SHARED CONTEXTS.
#include <thread>

#include "fixture/driver.h"
#include "fixture/shared_ends.h"

namespace shared_bindings {

CONFORMANCE_TOPIC(SharedBindings);

#define SHARED_BINDINGS_ONLY()                                         \
  if (target().ep_type != FI_EP_RDM) GTEST_SKIP() << "FI_EP_RDM only"; \
  if (!Fabric::offers(target(), with_shared_receives)) FAIL() << "no shared receive contexts are offered"

// Connected endpoints over hardware have send queues of their own.
#define NEEDS_SHARED_TRANSMITS()                                                                            \
  if (!Fabric::offers(target(), with_shared_transmits)) {                                                   \
    if (speaks_tcp() || target().ep_type == FI_EP_RDM) FAIL() << "no shared transmit contexts are offered"; \
    GTEST_SKIP() << "no shared transmit contexts";                                                          \
  }

namespace {

constexpr size_t kSize = 256;

void with_shared_transmits(fi_info& hints) {
  hints.ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
}

Handle<fid_stx> open_shared_transmit(const Fabric& fabric, size_t size = 0) {
  fi_tx_attr attr = *fabric.info()->tx_attr;
  if (size != 0) attr.size = size;
  return opened<fid_stx>("fi_stx_context",
                         [&](fid_stx** stx) { return fi_stx_context(fabric.domain(), &attr, stx, nullptr); });
}

NodeOptions bound_to(fid_t context) {
  NodeOptions options;
  options.configure = [context](fid_ep* ep) { require_ok(fi_ep_bind(ep, context, 0), "fi_ep_bind"); };
  return options;
}

}  // namespace

// ---- fi_getinfo ----

TEST_P(SharedBindings, AdvertisedContextsAreGranted) {
  for (const bool receives : {false, true}) {
    const HintsEditor edit = [&](fi_info& hints) {
      (receives ? hints.ep_attr->rx_ctx_cnt : hints.ep_attr->tx_ctx_cnt) = FI_SHARED_CONTEXT;
    };
    const Fabric usual(target());
    const fi_domain_attr& domain = *usual.info()->domain_attr;
    const bool advertised = (receives ? domain.max_ep_srx_ctx : domain.max_ep_stx_ctx) != 0;
    ASSERT_EQ(Fabric::offers(target(), edit), advertised) << (receives ? "receive" : "transmit");
    if (!advertised) continue;
    const Fabric shared(target(), edit);
    const fi_ep_attr& ep = *shared.info()->ep_attr;
    EXPECT_EQ(receives ? ep.rx_ctx_cnt : ep.tx_ctx_cnt, FI_SHARED_CONTEXT);
    EXPECT_EQ(receives ? ep.tx_ctx_cnt : ep.rx_ctx_cnt, 1u);
  }
}

// ---- Receive contexts ----

TEST_P(SharedBindings, ContextInUseAnswersBusy) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  SharedEnds ends(fabric, 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(fi_close(&ends.srx()->fid), -FI_EBUSY);
    ends.close(i);
  }
  // The destructor closes the context, and fails if closing does.
}

TEST_P(SharedBindings, ReceivesThatAreStillPostedAreDroppedWithTheContext) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  SharedEnds ends(fabric, 1);
  Buffer in(fabric, kSize);
  Context contexts[100];
  for (Context& context : contexts) ASSERT_EQ(ends.trecv(in, kSize, 1, &context, FI_ADDR_UNSPEC, 2), 0);
  ends.close(0);
  EXPECT_TRUE(ends[0].rx().stays_silent(milliseconds(1))) << "they belong to the context, not to the endpoint";
}

TEST_P(SharedBindings, ClosingOneEndpointLeavesReceivesAndMessagesToTheOthers) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  SharedEnds ends(fabric, 3);
  Buffer in(fabric, 1 << 20);
  Context contexts[16];
  ASSERT_EQ(ends.trecv(in, kSize, 1, &contexts[0]), 0);
  // Messages of every kind wait at two of them, some claimed.
  Node& sender = ends[0];
  std::vector<std::unique_ptr<Buffer>> out;  // long messages are read when they are received
  for (const size_t length : {8ul, 5'000ul, 100'000ul, 1ul << 20}) {
    out.push_back(std::make_unique<Buffer>(fabric, length));
    out.back()->fill_pattern(static_cast<unsigned>(length));
    for (const size_t to : {1, 2})
      for (const uint64_t tag : {2, 3}) {
        sender.peer = ends.insert(ends.address(to));
        ASSERT_EQ(sender.tsend(*out.back(), length, tag, &contexts[1]), 0);
        const auto deadline = after(kPatience);
        Completion found;
        do {  // messages that have arrived are found; they are claimed in the order of arrival
          driver::poke_and_rest();
          ASSERT_EQ(ends.trecvmsg(in, tag, FI_PEEK | (tag == 3 ? FI_CLAIM : 0), &contexts[2 + to]), 0);
          found = ends[to].rx().read();
          if (found.rc == -FI_EAGAIN) found = sender.rx().read();
          if (found.rc == -FI_EAGAIN) found = ends[3 - to].rx().read();
        } while (found.err() == FI_ENOMSG && Clock::now() < deadline);
        ASSERT_TRUE(found.ok()) << found;
      }
  }
  ends.close(1);
  ASSERT_EQ(sender.tsend(*out[0], 8, 1, &contexts[1]), 0);
  EXPECT_EQ(ends[2].rx().wait().context(), &contexts[0]);
  for (const size_t length : {8ul, 5'000ul, 100'000ul, 1ul << 20}) {
    ASSERT_EQ(ends.trecv(in, 1 << 20, 2, &contexts[10]), 0);
    const Completion kept = ends[2].rx().wait();
    ASSERT_TRUE(kept.ok()) << kept;
    EXPECT_EQ(kept.entry.len, length) << "messages to the other endpoint are still there, in their order";
    EXPECT_TRUE(in.holds_pattern(static_cast<unsigned>(length), length));
  }
  ASSERT_EQ(ends.trecvmsg(in, 2, FI_PEEK, &contexts[11]), 0);
  EXPECT_EQ(sender.rx().wait().err(), FI_ENOMSG) << "those to the closed one went with it";
}

TEST_P(SharedBindings, LaterEndpointServesPostedReceives) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  SharedEnds ends(fabric, 1);
  Buffer in(fabric, kSize), out(fabric, kSize);
  Context contexts[4];
  const fi_addr_t self = ends.insert(ends.address(0));
  ASSERT_EQ(ends.trecv(in, kSize, 1, &contexts[0]), 0);
  ASSERT_EQ(ends.trecv(in, kSize, 2, &contexts[1], self), 0);
  Node& late = ends.open_next();
  late.peer = self;
  const fi_addr_t to_late = ends.insert(ends.address(1));
  ASSERT_EQ(late.tsend(out, 8, 1, &contexts[2]), 0);
  EXPECT_EQ(ends[0].rx().wait().context(), &contexts[0]);
  ends[0].peer = to_late;
  ASSERT_EQ(ends[0].tsend(out, 8, 2, &contexts[2]), 0);
  EXPECT_EQ(late.rx().wait().context(), &contexts[1]) << "the source has the same number at all endpoints";
  // The oldest endpoint closes: the next one reports cancellations.
  ASSERT_EQ(ends.trecv(in, kSize, 3, &contexts[3]), 0);
  ends.close(0);
  ASSERT_EQ(fi_cancel(&ends.srx()->fid, &contexts[3]), 0);
  EXPECT_EQ(late.rx().wait().err(), FI_ECANCELED);
}

TEST_P(SharedBindings, EndpointsOfOneContextShareTheirAddressVector) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  SharedEnds ends(fabric, 1);
  const Handle<fid_av> other = open_vector(fabric);
  Node vector_first(fabric), context_first(fabric);
  ASSERT_EQ(fi_ep_bind(vector_first.ep(), &other->fid, 0), 0);
  EXPECT_EQ(fi_ep_bind(vector_first.ep(), &ends.srx()->fid, 0), -FI_EINVAL);
  ASSERT_EQ(fi_ep_bind(context_first.ep(), &ends.srx()->fid, 0), 0);
  EXPECT_EQ(fi_ep_bind(context_first.ep(), &other->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_ep_bind(context_first.ep(), &ends.av()->fid, 0), 0);
  EXPECT_EQ(fi_enable(context_first.ep()), 0);
  context_first.close();
  vector_first.close();
}

TEST_P(SharedBindings, SharingEndpointNeedsAContext) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  const Handle<fid_av> av = open_vector(fabric);
  const Handle<fid_ep> srx = open_shared_receive(fabric);
  Node node(fabric);
  ASSERT_EQ(fi_ep_bind(node.ep(), &av->fid, 0), 0);
  EXPECT_EQ(fi_enable(node.ep()), -FI_EINVAL);
  ASSERT_EQ(fi_ep_bind(node.ep(), &srx->fid, 0), 0);
  EXPECT_EQ(fi_enable(node.ep()), 0);
  node.close();
}

TEST_P(SharedBindings, CompletionQueuesBelongToTheEndpoints) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  SharedEnds ends(fabric, 1);
  CompletionQueue queue(fabric);
  EXPECT_LT(fi_ep_bind(ends.srx(), queue.fid(), FI_RECV), 0) << "the context has none";
  const Handle<fid_ep> ep = opened<fid_ep>(
      "fi_endpoint", [&](fid_ep** e) { return fi_endpoint(fabric.domain(), fabric.info(), e, nullptr); });
  ASSERT_EQ(fi_ep_bind(ep.get(), queue.fid(), FI_TRANSMIT), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), &ends.av()->fid, 0), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), &ends.srx()->fid, 0), 0);
  EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ) << "receives complete at the endpoint all the same";
}

TEST_P(SharedBindings, ReceiveContextsAreBoundOnceInTimeAndWithinTheirDomain) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives), foreign(target(), with_shared_receives);
  SharedEnds ends(fabric, 1);
  const Handle<fid_ep> second = open_shared_receive(fabric), stranger = open_shared_receive(foreign);
  EXPECT_EQ(fi_ep_bind(ends[0].ep(), &second->fid, 0), -FI_EOPBADSTATE) << "it is enabled";
  Node node(fabric);
  EXPECT_EQ(fi_ep_bind(node.ep(), &stranger->fid, 0), -FI_EDOMAIN);
  EXPECT_EQ(fi_ep_bind(node.ep(), &second->fid, FI_PEEK), -FI_EBADFLAGS);
  ASSERT_EQ(fi_ep_bind(node.ep(), &second->fid, FI_RECV), 0) << "the direction is no news";
  EXPECT_EQ(fi_ep_bind(node.ep(), &ends.srx()->fid, 0), -FI_EINVAL) << "one is enough";
  EXPECT_EQ(fi_close(&second->fid), -FI_EBUSY);
  node.close();
  EXPECT_EQ(fi_srx_context(fabric.domain(), fabric.info()->rx_attr, nullptr, nullptr), -FI_EINVAL);
}

TEST_P(SharedBindings, ContextReportsSourcesIfItsEndpointsDo) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  fi_rx_attr attr = *fabric.info()->rx_attr;
  attr.caps &= ~FI_DIRECTED_RECV;
  const auto srx =
      opened<fid_ep>("fi_srx_context", [&](fid_ep** s) { return fi_srx_context(fabric.domain(), &attr, s, nullptr); });
  const auto usual = opened<fid_ep>("fi_srx_context",
                                    [&](fid_ep** s) { return fi_srx_context(fabric.domain(), nullptr, s, nullptr); });
  Node node(fabric);
  EXPECT_EQ(fi_ep_bind(node.ep(), &srx->fid, 0), -FI_EINVAL) << "an endpoint must not have more than its context";
  EXPECT_EQ(fi_ep_bind(node.ep(), &usual->fid, 0), 0);
  node.close();
}

TEST_P(SharedBindings, ThreadsSendReceiveAndPostAtTheSameTime) {
  SHARED_BINDINGS_ONLY();
  constexpr unsigned kEach = 300;
  const HintsEditor safe = [](fi_info& hints) {
    with_shared_receives(hints);
    hints.domain_attr->threading = FI_THREAD_SAFE;
  };
  Fabric fabric(target(), safe);
  SharedEnds ends(fabric, 2);
  Buffer out(fabric, 20'000), in(fabric, 20'000);
  const fi_addr_t peers[] = {ends.insert(ends.address(0)), ends.insert(ends.address(1))};
  std::atomic<unsigned> received{0};
  ProgressLimit limit;
  const auto count = [&](CompletionQueue& queue) {
    fi_cq_tagged_entry entries[8];
    const ssize_t got = fi_cq_read(queue.get(), entries, 8);
    if (got > 0) {
      received += static_cast<unsigned>(got);
      limit.progressed();
    }
    if (got == -FI_EAGAIN) std::this_thread::yield();
    return got >= 0 || got == -FI_EAGAIN;
  };
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (size_t which = 0; which < 2; ++which) {
    threads.emplace_back([&, which] {  // sends to the other end, and reads its own receives
      Context context;
      for (unsigned i = 0; i < kEach && !limit.expired();) {
        const size_t length = i % 10 == 0 ? 20'000 : 16;
        const ssize_t rc =
            fi_tsend(ends[which].ep(), out.data(), length, out.desc(), peers[1 - which], i % 3, &context);
        if (rc == 0) ++i;
        fi_cq_tagged_entry sent[8];
        if (fi_cq_read(ends[which].tx().get(), sent, 8) == -FI_EAVAIL) failed = true;
        if ((rc != 0 && rc != -FI_EAGAIN) || !count(ends[which].rx())) failed = true;
      }
    });
    threads.emplace_back([&, which] {  // posts, some with exact tags, some with masks
      Context context;
      for (unsigned i = 0; i < kEach && !limit.expired(); ++i) {
        const ssize_t rc = retry([&] {
          return fi_trecv(ends.srx(), in.data(), 20'000, in.desc(), FI_ADDR_UNSPEC, 0, i % 2 ? ~uint64_t{0} : 3,
                          &context);
        });
        if (rc != 0) failed = true;
        if (which != 0 && i % 16 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (received < 2 * kEach && !failed && !limit.expired())
    for (size_t i = 0; i < 2; ++i) {
      fi_cq_tagged_entry sent[8];
      if (fi_cq_read(ends[i].tx().get(), sent, 8) == -FI_EAVAIL || !count(ends[i].rx())) failed = true;
    }
  EXPECT_FALSE(failed);
  EXPECT_EQ(received, 2 * kEach);
}

TEST_P(SharedBindings, EndpointsComeAndGoWhileOthersReceive) {
  SHARED_BINDINGS_ONLY();
  for (const fi_progress progress : {FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO}) {
    const HintsEditor edit = [=](fi_info& hints) {
      with_shared_receives(hints);
      hints.domain_attr->threading = FI_THREAD_SAFE;
      hints.domain_attr->progress = progress;
    };
    Fabric fabric(target(), edit);
    SharedEnds ends(fabric, 2);
    Buffer out(fabric, 64), in(fabric, 64);
    ends[0].peer = ends.insert(ends.address(1));
    const fi_addr_t to_passing = ends.insert(ends.address(0));  // names of endpoints that open and close are not needed
    std::atomic<bool> over{false};
    std::jthread passing([&] {
      for (int i = 0; i < 20; ++i) {
        CompletionQueue queue(fabric);
        const auto ep = opened<fid_ep>(
            "fi_endpoint", [&](fid_ep** e) { return fi_endpoint(fabric.domain(), fabric.info(), e, nullptr); });
        require_ok(fi_ep_bind(ep.get(), queue.fid(), FI_TRANSMIT | FI_RECV), "fi_ep_bind CQ");
        require_ok(fi_ep_bind(ep.get(), &ends.av()->fid, 0), "fi_ep_bind AV");
        require_ok(fi_ep_bind(ep.get(), &ends.srx()->fid, 0), "fi_ep_bind SRX");
        require_ok(fi_enable(ep.get()), "fi_enable");
        Context context;
        (void)fi_tsend(ep.get(), out.data(), 8, out.desc(), to_passing, 99, &context);  // waits at the first end
        fi_cq_tagged_entry entry;
        for (int reads = 0; reads < 10; ++reads) (void)fi_cq_read(queue.get(), &entry, 1);
      }
      over = true;
    });
    Context contexts[2];
    while (!over) {
      const auto deadline = after(kPatience);
      ASSERT_EQ(ends.trecv(in, 64, 1, &contexts[0]), 0);
      ASSERT_EQ(ends[0].tsend(out, 8, 1, &contexts[1]), 0);
      fi_cq_tagged_entry entry;
      ssize_t got = -FI_EAGAIN;
      while (got == -FI_EAGAIN && Clock::now() < deadline) got = fi_cq_read(ends[1].rx().get(), &entry, 1);
      ASSERT_EQ(got, 1);
      got = -FI_EAGAIN;
      while (got == -FI_EAGAIN && Clock::now() < deadline) got = fi_cq_read(ends[0].tx().get(), &entry, 1);
      ASSERT_EQ(got, 1);
    }
  }
}

TEST_P(SharedBindings, ContextServesTheEndpointTypeOfItsDomain) {
  SHARED_BINDINGS_ONLY();
  Target connected = target();
  connected.ep_type = FI_EP_MSG;
  if (target().provider != "tcp") GTEST_SKIP() << "the provider has endpoints of one type";
  Fabric fabric(target(), with_shared_receives), connections(connected);
  const Handle<fid_ep> srx = open_shared_receive(fabric), other = open_shared_receive(connections);
  const auto open = [](const Fabric& where, const Fabric& what) {
    return opened<fid_ep>("fi_endpoint",
                          [&](fid_ep** ep) { return fi_endpoint(where.domain(), what.info(), ep, nullptr); });
  };
  EXPECT_EQ(fi_ep_bind(open(fabric, connections).get(), &srx->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_ep_bind(open(connections, fabric).get(), &other->fid, 0), -FI_EINVAL);
}

TEST_P(SharedBindings, ScalableEndpointsShareNothing) {
  SHARED_BINDINGS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  const Handle<fid_ep> srx = open_shared_receive(fabric);
  const Handle<fid_stx> stx = open_shared_transmit(fabric);
  const InfoPtr info = fabric.duplicate_info();
  fid_ep* none = nullptr;
  EXPECT_EQ(fi_scalable_ep(fabric.domain(), info.get(), &none, nullptr), -FI_EINVAL);
  info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 2;
  const auto sep = opened<fid_ep>(
      "fi_scalable_ep", [&](fid_ep** ep) { return fi_scalable_ep(fabric.domain(), info.get(), ep, nullptr); });
  EXPECT_EQ(fi_scalable_ep_bind(sep.get(), &srx->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_scalable_ep_bind(sep.get(), &stx->fid, 0), -FI_EINVAL);
}

// ---- Transmit contexts ----

TEST_P(SharedBindings, OperationsArePostedToTheEndpointsAndCompleteThere) {
  NEEDS_SHARED_TRANSMITS();
  Fabric fabric(target(), with_shared_transmits);
  const Handle<fid_stx> stx = open_shared_transmit(fabric);
  const NodeOptions options = bound_to(&stx->fid);
  {
    Pair first(fabric, options), second(fabric, options);
    for (Pair* pair : {&first, &second}) {
      expect_exchange(*pair);
      EXPECT_EQ(fi_close(&stx->fid), -FI_EBUSY);
    }
  }
}

TEST_P(SharedBindings, QueuesTakeAsManyOperationsAsTheContextHas) {
  NEEDS_SHARED_TRANSMITS();
  if (target().connected()) GTEST_SKIP() << "a connection takes operations off its queue at once";
  constexpr size_t kMany = 500;
  const HintsEditor few = [](fi_info& hints) {
    with_shared_transmits(hints);
    hints.tx_attr->size = 16;
  };
  Fabric fabric(target(), few);
  const Handle<fid_stx> stx = open_shared_transmit(fabric, kMany);
  {
    Pair pair(fabric, bound_to(&stx->fid));
    Buffer out(fabric, 8), in(fabric, 8);
    Context contexts[2];
    for (size_t i = 0; i < kMany; ++i)
      ASSERT_EQ(fi_send(pair.a().ep(), out.data(), 8, out.desc(), pair.a().peer, &contexts[0]), 0) << i;
    for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(pair.b().recv(in, 8, &contexts[1]), 0);
    for (size_t i = 0; i < kMany; ++i) ASSERT_TRUE(pair.b().rx().wait().ok());
    for (size_t i = 0; i < kMany; ++i) ASSERT_TRUE(pair.a().tx().wait().ok());
  }
}

TEST_P(SharedBindings, LateTransmitContextLengthensTheQueuesOfPeersInContact) {
  NEEDS_SHARED_TRANSMITS();
  if (target().connected()) GTEST_SKIP() << "a connection takes operations off its queue at once";
  constexpr size_t kMany = 200, kLength = 100'000;
  Fabric fabric(target(), [](fi_info& hints) { hints.tx_attr->size = 16; });
  const Handle<fid_stx> stx = open_shared_transmit(fabric, kMany);
  {
    Pair pair(fabric);
    Buffer out(fabric, kLength), in(fabric, kLength);
    Context contexts[2];
    for (size_t i = 0; i < kMany; ++i) {
      ASSERT_EQ(fi_send(pair.a().ep(), out.data(), kLength, out.desc(), pair.a().peer, &contexts[0]), 0) << i;
      if (i == 0) {  // the connection is being opened
        ASSERT_EQ(fi_ep_bind(pair.a().ep(), &stx->fid, 0), 0);
      }
    }
    for (size_t i = 0; i < kMany; ++i) {
      ASSERT_EQ(pair.b().recv(in, kLength, &contexts[1]), 0);
      const Completion received = pair.b().rx().wait();
      ASSERT_TRUE(received.ok()) << received << " number " << i;
    }
    for (size_t i = 0; i < kMany; ++i) {
      const Completion sent = pair.a().tx().wait();
      ASSERT_TRUE(sent.ok()) << sent << " number " << i;
    }
  }
}

TEST_P(SharedBindings, TransmitContextsAreBoundOnceInTimeAndWithinTheirDomain) {
  NEEDS_SHARED_TRANSMITS();
  Fabric fabric(target(), with_shared_transmits), foreign(target(), with_shared_transmits);
  const Handle<fid_stx> stx = open_shared_transmit(fabric), second = open_shared_transmit(fabric);
  const Handle<fid_stx> stranger = open_shared_transmit(foreign);
  {
    Node node(fabric);
    EXPECT_EQ(fi_ep_bind(node.ep(), &stx->fid, FI_PEEK), -FI_EBADFLAGS);
    EXPECT_EQ(fi_ep_bind(node.ep(), &stranger->fid, 0), -FI_EDOMAIN);
    ASSERT_EQ(fi_ep_bind(node.ep(), &stx->fid, FI_TRANSMIT), 0) << "the direction is no news";
    EXPECT_EQ(fi_ep_bind(node.ep(), &second->fid, 0), -FI_EINVAL) << "one is enough";
    Pair pair(fabric, bound_to(&stx->fid));
    EXPECT_EQ(fi_ep_bind(pair.a().ep(), &second->fid, 0), -FI_EINVAL) << "one is enough";
  }
  const Fabric plain(target());
  const Handle<fid_stx> late = open_shared_transmit(plain);
  {
    Pair pair(plain);
    ASSERT_EQ(fi_ep_bind(pair.a().ep(), &late->fid, 0), 0) << "it is enabled, with a queue of its own so far";
    expect_exchange(pair);
  }
  EXPECT_EQ(fi_stx_context(fabric.domain(), fabric.info()->tx_attr, nullptr, nullptr), -FI_EINVAL);
  fid_stx* usual = nullptr;
  ASSERT_EQ(fi_stx_context(fabric.domain(), nullptr, &usual, this), 0);
  EXPECT_EQ(usual->fid.fclass, static_cast<size_t>(FI_CLASS_STX_CTX));
  EXPECT_EQ(usual->fid.context, this);
  EXPECT_EQ(fi_close(&usual->fid), 0);
}

TEST_P(SharedBindings, SharedTransmitEndpointNeedsAContext) {
  NEEDS_SHARED_TRANSMITS();
  if (target().connected()) GTEST_SKIP() << "connected endpoints have queues of their own as well";
  Fabric fabric(target(), with_shared_transmits);
  const Handle<fid_av> av = open_vector(fabric);
  const Handle<fid_stx> stx = open_shared_transmit(fabric);
  Node node(fabric);
  ASSERT_EQ(fi_ep_bind(node.ep(), &av->fid, 0), 0);
  EXPECT_EQ(fi_enable(node.ep()), -FI_EINVAL);
  ASSERT_EQ(fi_ep_bind(node.ep(), &stx->fid, 0), 0);
  EXPECT_EQ(fi_enable(node.ep()), 0);
  node.close();
}

TEST_P(SharedBindings, OneEndpointMayShareBothWays) {
  SHARED_BINDINGS_ONLY();
  const HintsEditor both = [](fi_info& hints) {
    with_shared_receives(hints);
    with_shared_transmits(hints);
  };
  ASSERT_TRUE(Fabric::offers(target(), both));
  Fabric fabric(target(), both);
  const Handle<fid_stx> stx = open_shared_transmit(fabric);
  {
    SharedEnds ends(fabric, 2, bound_to(&stx->fid));
    Buffer in(fabric, kSize), out(fabric, kSize);
    Context contexts[2];
    ends[0].peer = ends.insert(ends.address(1));
    ASSERT_EQ(ends.recv(in, kSize, &contexts[0]), 0);
    ASSERT_EQ(ends[0].send(out, 8, &contexts[1]), 0);
    EXPECT_EQ(ends[1].rx().wait().context(), &contexts[0]);
    EXPECT_EQ(ends[0].tx().wait().context(), &contexts[1]);
    EXPECT_EQ(fi_close(&stx->fid), -FI_EBUSY);
  }
}

}  // namespace shared_bindings
