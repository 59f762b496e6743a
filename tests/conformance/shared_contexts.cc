// SPDX-License-Identifier: BSD-2-Clause
// Shared receive contexts of connectionless endpoints: messages to any of them match the receives of one context, and
// complete in the queue of their endpoint; fi_endpoint(3), SHARED CONTEXTS. Those of connections: shared_receive.cc.
#include <rdma/fi_rma.h>

#include <array>
#include <set>
#include <thread>

#include "fixture/all_lengths.h"
#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/shared_ends.h"
#include "fixture/waiting_work.h"

namespace shared_contexts {

CONFORMANCE_TOPIC(SharedContexts);

// `offers` is missing in the reference with some providers.
#define SHARED_CONTEXTS_ONLY()                                         \
  if (target().ep_type != FI_EP_RDM) GTEST_SKIP() << "FI_EP_RDM only"; \
  if (!Fabric::offers(target(), with_shared_receives)) FAIL() << "no shared receive contexts are offered"

namespace {

constexpr size_t kSize = 256;
constexpr uint64_t kLast = 0x5a5a5a5a5a5a5a;  // no message of the tests has it

void plain(fi_info& hints) {
  hints.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV;
}

void with_triggered_receives(fi_info& hints) {
  with_shared_receives(hints);
  hints.caps |= FI_TRIGGER;
}

// Two ends with a shared context, and two senders that have both in their vectors.
struct Scene {
  explicit Scene(const Target& target, const NodeOptions& options = {})
      : fabric(target, with_shared_receives),
        plain_fabric(target, plain),
        ends(fabric, 2, options),
        senders{DatagramEnd(plain_fabric), DatagramEnd(plain_fabric)},
        out(plain_fabric, 1 << 20),
        in(fabric, 1 << 20) {
    for (size_t from = 0; from < 2; ++from) {
      names[from] = ends.insert(senders[from].address());
      for (size_t to = 0; to < 2; ++to) ways[from][to] = senders[from].insert(ends.address(to));
    }
  }
  ssize_t send(size_t from, size_t to, size_t length, void* context) {
    senders[from]->peer = ways[from][to];
    return senders[from]->send(out, length, context);
  }
  ssize_t tsend(size_t from, size_t to, size_t length, uint64_t tag, void* context) {
    senders[from]->peer = ways[from][to];
    return senders[from]->tsend(out, length, tag, context);
  }
  // Earlier messages between these ends have arrived when this one has.
  void let_arrive(size_t from, size_t to) {
    ASSERT_EQ(tsend(from, to, 0, kLast, &contexts[60]), 0);
    const auto deadline = after(kPatience);
    Completion last;
    do {
      driver::poke_and_rest();
      ASSERT_EQ(ends.trecvmsg(in, kLast, FI_PEEK | FI_DISCARD, &contexts[61]), 0);
      // A found message is reported by its endpoint; otherwise by the oldest.
      last = ends[to].rx().read();
      if (last.rc == -FI_EAGAIN) last = ends[0].rx().read();
    } while (last.err() == FI_ENOMSG && Clock::now() < deadline);
    ASSERT_TRUE(last.ok()) << last;
    EXPECT_EQ(last.context(), &contexts[61]);
  }

  Fabric fabric, plain_fabric;
  SharedEnds ends;
  std::array<DatagramEnd, 2> senders;
  Buffer out, in;
  fi_addr_t names[2], ways[2][2];
  Context contexts[64];
};

}  // namespace

TEST_P(SharedContexts, ReceivesServeWhicheverEndpointGetsAMessage) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  for (const bool tagged : {false, true}) {
    std::vector<Buffer> in;
    for (size_t i = 0; i < 4; ++i) {
      in.emplace_back(scene.fabric, kSize);
      ASSERT_EQ(tagged ? scene.ends.trecv(in[i], kSize, 9, &scene.contexts[i])
                       : scene.ends.recv(in[i], kSize, &scene.contexts[i]),
                0);
    }
    for (unsigned i = 0; i < 4; ++i) {
      const size_t from = i / 2, to = (i + from) % 2;
      scene.out.fill_pattern(i + 1);
      ASSERT_EQ(
          tagged ? scene.tsend(from, to, 100, 9, &scene.contexts[10]) : scene.send(from, to, 100, &scene.contexts[10]),
          0);
      const Completion received = scene.ends[to].rx().wait();
      ASSERT_TRUE(received.ok()) << received;
      EXPECT_EQ(received.context(), &scene.contexts[i]) << "in the order posted";
      EXPECT_TRUE(in[i].holds_pattern(i + 1, 100));
      EXPECT_TRUE(scene.ends[1 - to].rx().stays_silent(milliseconds(1)));
      ASSERT_TRUE(scene.senders[from]->tx().wait().ok());
    }
  }
}

TEST_P(SharedContexts, AllLengthsArriveExpectedOrUnexpected) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  const auto from = [](const OneMessage& m) -> size_t { return (m.seed - 1) % 2; };
  const auto to = [](const OneMessage& m) -> size_t { return (m.seed - 1) / 2 % 2; };
  expect_all_lengths_to_arrive(
      scene.out, scene.in,
      [&](const OneMessage& m) {
        return m.tagged ? scene.ends.trecv(scene.in, m.length, m.seed, &scene.contexts[0])
                        : scene.ends.recv(scene.in, m.length, &scene.contexts[0]);
      },
      [&](const OneMessage& m) {
        return m.tagged ? scene.tsend(from(m), to(m), m.length, m.seed, &scene.contexts[1])
                        : scene.send(from(m), to(m), m.length, &scene.contexts[1]);
      },
      [&](const OneMessage& m) -> CompletionQueue& { return scene.ends[to(m)].rx(); },
      [&](const OneMessage& m) -> CompletionQueue& { return scene.senders[from(m)]->tx(); });
}

TEST_P(SharedContexts, UnexpectedMessagesMatchInTheOrderOfArrival) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  for (const size_t to : {1, 0, 1}) {
    scene.out.fill_pattern(static_cast<unsigned>(to + 1));
    ASSERT_EQ(scene.tsend(0, to, 40, 3, &scene.contexts[0]), 0);
    scene.let_arrive(0, to);
  }
  for (const size_t to : {1, 0, 1}) {
    ASSERT_EQ(scene.ends.trecv(scene.in, kSize, 3, &scene.contexts[to]), 0);
    const Completion received = scene.ends[to].rx().wait();
    ASSERT_TRUE(received.ok()) << received;
    EXPECT_EQ(received.context(), &scene.contexts[to]);
    EXPECT_TRUE(scene.in.holds_pattern(static_cast<unsigned>(to + 1), 40));
  }
}

TEST_P(SharedContexts, TooLongMessageFailsAtItsEndpoint) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  ASSERT_EQ(scene.ends.trecv(scene.in, 10, 3, &scene.contexts[0]), 0);
  ASSERT_EQ(scene.tsend(0, 1, 11, 3, &scene.contexts[1]), 0);
  const Completion received = scene.ends[1].rx().wait();
  EXPECT_EQ(received.err(), FI_ETRUNC) << received;
  EXPECT_EQ(received.context(), &scene.contexts[0]);
}

TEST_P(SharedContexts, DirectedReceivesTakeTheirSourceAtAnyEndpoint) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  // Both ends have one of the peers before the receive is posted, and none has the other.
  ASSERT_EQ(scene.ends.trecv(scene.in, kSize, 1, &scene.contexts[0], scene.names[1]), 0);
  ASSERT_EQ(scene.ends.trecv(scene.in, kSize, 1, &scene.contexts[1], scene.names[1]), 0);
  ASSERT_EQ(scene.ends.trecv(scene.in, kSize, 1, &scene.contexts[2]), 0);
  ASSERT_EQ(scene.tsend(0, 0, 8, 1, &scene.contexts[10]), 0);
  EXPECT_EQ(scene.ends[0].rx().wait().context(), &scene.contexts[2]) << "the others are not for this sender";
  ASSERT_EQ(scene.tsend(1, 1, 8, 1, &scene.contexts[10]), 0);
  EXPECT_EQ(scene.ends[1].rx().wait().context(), &scene.contexts[0]);
  ASSERT_EQ(scene.tsend(1, 0, 8, 1, &scene.contexts[10]), 0);
  EXPECT_EQ(scene.ends[0].rx().wait().context(), &scene.contexts[1]);
}

TEST_P(SharedContexts, DirectedReceivesFindTheirUnexpectedMessages) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  for (const size_t from : {0, 1}) {
    scene.out.fill_pattern(static_cast<unsigned>(from + 1));
    ASSERT_EQ(scene.tsend(from, 1 - from, 30, 1, &scene.contexts[10]), 0);
    scene.let_arrive(from, 1 - from);
  }
  for (const size_t from : {1, 0}) {
    ASSERT_EQ(scene.ends.trecv(scene.in, kSize, 1, &scene.contexts[from], scene.names[from]), 0);
    EXPECT_EQ(scene.ends[1 - from].rx().wait().context(), &scene.contexts[from]);
    EXPECT_TRUE(scene.in.holds_pattern(static_cast<unsigned>(from + 1), 30));
  }
  EXPECT_EQ(fi_trecv(scene.ends.srx(), scene.in.data(), 8, scene.in.desc(), 12345, 1, 0, &scene.contexts[0]),
            -FI_EINVAL)
      << "the vector has no such source";
}

TEST_P(SharedContexts, SourcesHaveTheNamesOfTheSharedVector) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  for (const size_t to : {0, 1}) {
    ASSERT_EQ(scene.ends.recv(scene.in, kSize, &scene.contexts[0]), 0);
    ASSERT_EQ(scene.send(to, to, 5, &scene.contexts[1]), 0);
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    const auto deadline = after(kPatience);
    ssize_t got = -FI_EAGAIN;
    while (got == -FI_EAGAIN && Clock::now() < deadline) {
      driver::poke();
      got = fi_cq_readfrom(scene.ends[to].rx().get(), &entry, 1, &source);
    }
    ASSERT_EQ(got, 1);
    EXPECT_EQ(source, scene.names[to]);
  }
}

TEST_P(SharedContexts, PeekFindsMessagesOfAnyEndpointAndLeavesThem) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  ASSERT_EQ(scene.tsend(0, 1, 70, 4, &scene.contexts[0]), 0);
  scene.let_arrive(0, 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(scene.ends.trecvmsg(scene.in, 4, FI_PEEK, &scene.contexts[1]), 0);
    const Completion found = scene.ends[1].rx().wait();
    ASSERT_TRUE(found.ok()) << found;
    EXPECT_EQ(found.context(), &scene.contexts[1]);
    EXPECT_EQ(found.entry.len, 70u);
  }
  ASSERT_EQ(scene.ends.trecvmsg(scene.in, 5, FI_PEEK, &scene.contexts[2]), 0);
  const Completion missing = scene.ends[0].rx().wait();
  EXPECT_EQ(missing.err(), FI_ENOMSG) << "where the oldest endpoint has its queue; " << missing;
  EXPECT_EQ(missing.context(), &scene.contexts[2]);
  ASSERT_EQ(scene.ends.trecv(scene.in, kSize, 4, &scene.contexts[3]), 0);
  EXPECT_EQ(scene.ends[1].rx().wait().context(), &scene.contexts[3]);
}

TEST_P(SharedContexts, MessagesAreClaimedAndDiscarded) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  for (const size_t length : {33ul, 44ul, 200'000ul}) {
    scene.out.fill_pattern(static_cast<unsigned>(length));
    ASSERT_EQ(scene.tsend(0, 1, length, 6, &scene.contexts[0]), 0);
    scene.let_arrive(0, 1);
    ASSERT_EQ(scene.ends.trecvmsg(scene.in, 6, FI_PEEK | FI_CLAIM, &scene.contexts[1]), 0);
    EXPECT_EQ(scene.ends[1].rx().wait().entry.len, length);
    ASSERT_EQ(scene.ends.trecvmsg(scene.in, 6, FI_PEEK, &scene.contexts[2]), 0);
    EXPECT_EQ(scene.ends[0].rx().wait().err(), FI_ENOMSG) << "it is the claimer's";
    ASSERT_EQ(scene.ends.trecvmsg(scene.in, 6, FI_CLAIM, &scene.contexts[1]), 0);
    const Completion taken = scene.ends[1].rx().wait();
    ASSERT_TRUE(taken.ok()) << taken;
    EXPECT_TRUE(scene.in.holds_pattern(static_cast<unsigned>(length), length));
    ASSERT_TRUE(scene.senders[0]->tx().wait().ok());
    ASSERT_TRUE(scene.senders[0]->tx().wait().ok()) << "that of let_arrive()";
    ASSERT_EQ(scene.tsend(1, 0, length, 6, &scene.contexts[0]), 0);
    scene.let_arrive(1, 0);
    ASSERT_EQ(scene.ends.trecvmsg(scene.in, 6, FI_PEEK | FI_DISCARD, &scene.contexts[3]), 0);
    EXPECT_EQ(scene.ends[0].rx().wait().entry.len, length);
    ASSERT_TRUE(scene.senders[1]->tx().wait().ok()) << "its sender does not wait for ever";
    ASSERT_TRUE(scene.senders[1]->tx().wait().ok());
  }
}

TEST_P(SharedContexts, OneBufferTakesManyMessagesOfAllEndpoints) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  const size_t minimum = 100;
  ASSERT_EQ(fi_setopt(&scene.ends.srx()->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, sizeof minimum), 0);
  Buffer in(scene.fabric, 450);
  const iovec iov{in.data(), in.size()};
  void* desc = in.desc();
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, &scene.contexts[0], 0};
  ASSERT_EQ(fi_recvmsg(scene.ends.srx(), &message, FI_MULTI_RECV), 0);
  for (unsigned i = 0; i < 4; ++i) {
    const size_t to = i % 2;
    scene.out.fill_pattern(i);
    ASSERT_EQ(scene.send(i / 2, to, 100, &scene.contexts[1]), 0);
    const Completion received = scene.ends[to].rx().wait();
    ASSERT_TRUE(received.ok()) << received;
    EXPECT_EQ(received.context(), &scene.contexts[0]);
    EXPECT_EQ(received.entry.buf, in.data() + 100 * i);
    EXPECT_TRUE(in.holds_pattern(i, 100, 100 * i));
    EXPECT_EQ((received.entry.flags & FI_MULTI_RECV) != 0, i == 3) << "the last one gives the buffer back";
  }
}

TEST_P(SharedContexts, PostedReceivesAreCancelled) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  for (size_t i = 0; i < 2; ++i) ASSERT_EQ(scene.ends.trecv(scene.in, kSize, 1, &scene.contexts[i]), 0);
  ASSERT_EQ(fi_cancel(&scene.ends.srx()->fid, &scene.contexts[0]), 0);
  const Completion cancelled = scene.ends[0].rx().wait();
  EXPECT_EQ(cancelled.err(), FI_ECANCELED) << cancelled;
  EXPECT_EQ(cancelled.context(), &scene.contexts[0]);
  ASSERT_EQ(scene.tsend(0, 1, 8, 1, &scene.contexts[10]), 0);
  EXPECT_EQ(scene.ends[1].rx().wait().context(), &scene.contexts[1]) << "the cancelled one is not filled";
  EXPECT_EQ(fi_cancel(&scene.ends.srx()->fid, &scene.contexts[0]), -FI_ENOENT);
  EXPECT_EQ(fi_cancel(scene.ends[0].fid(), &scene.contexts[1]), -FI_ENOENT);
}

TEST_P(SharedContexts, ReceivesMayBePostedBeforeThereIsAnEndpoint) {
  SHARED_CONTEXTS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  SharedEnds ends(fabric, 0);
  Buffer in(fabric, kSize), out(fabric, kSize);
  Context contexts[4];
  ASSERT_EQ(ends.trecv(in, kSize, 1, &contexts[0]), 0);
  ASSERT_EQ(ends.trecv(in, kSize, 2, &contexts[1]), 0);
  EXPECT_EQ(fi_trecv(ends.srx(), in.data(), 8, in.desc(), 0, 3, 0, &contexts[2]), -FI_EINVAL)
      << "a source means nothing as long as there is no address vector";
  ASSERT_EQ(fi_cancel(&ends.srx()->fid, &contexts[1]), 0);
  Node& node = ends.open_next();
  node.peer = ends.insert(ends.address(0));
  ASSERT_EQ(node.tsend(out, 8, 1, &contexts[3]), 0);
  EXPECT_EQ(node.rx().wait().context(), &contexts[0]);
  EXPECT_TRUE(node.rx().stays_silent(milliseconds(1))) << "no endpoint could report the cancelled one";
}

TEST_P(SharedContexts, ReceivingOnTheEndpointItselfIsRefused) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  fid_ep* const ep = scene.ends[0].ep();
  const iovec iov{scene.in.data(), kSize};
  void* desc = scene.in.desc();
  void* const context = &scene.contexts[0];
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, context, 0};
  const fi_msg_tagged tagged{&iov, &desc, 1, FI_ADDR_UNSPEC, 1, 0, context, 0};
  EXPECT_EQ(fi_recv(ep, scene.in.data(), kSize, desc, FI_ADDR_UNSPEC, context), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_recvv(ep, &iov, &desc, 1, FI_ADDR_UNSPEC, context), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_recvmsg(ep, &message, 0), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_trecv(ep, scene.in.data(), kSize, desc, FI_ADDR_UNSPEC, 1, 0, context), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_trecvv(ep, &iov, &desc, 1, FI_ADDR_UNSPEC, 1, 0, context), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_trecvmsg(ep, &tagged, 0), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_trecvmsg(ep, &tagged, FI_PEEK), -FI_EOPBADSTATE);
}

TEST_P(SharedContexts, SendingOnTheContextIsRefused) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  fid_ep* const srx = scene.ends.srx();
  EXPECT_LT(fi_send(srx, scene.out.data(), 8, scene.out.desc(), scene.names[0], &scene.contexts[0]), 0);
  EXPECT_LT(fi_tsend(srx, scene.out.data(), 8, scene.out.desc(), scene.names[0], 1, &scene.contexts[0]), 0);
  EXPECT_LT(fi_read(srx, scene.in.data(), 8, scene.in.desc(), scene.names[0], 0, 0, &scene.contexts[0]), 0);
}

TEST_P(SharedContexts, OtherTransfersOfTheEndpointsAreUnaffected) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  Buffer remote(scene.plain_fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
  Buffer local(scene.fabric, 64, 0, FI_READ | FI_WRITE | FI_SEND);
  for (size_t i = 0; i < 2; ++i) {
    local.fill_pattern(static_cast<unsigned>(i + 1));
    ASSERT_EQ(retry([&] {
                return fi_write(scene.ends[i].ep(), local.data(), 64, local.desc(), scene.names[i],
                                remote.remote_address(), remote.key(), &scene.contexts[0]);
              }),
              0);
    const Completion written = scene.ends[i].tx().wait();
    ASSERT_TRUE(written.ok()) << written;
    local.fill_pattern(0);
    ASSERT_EQ(retry([&] {
                return fi_read(scene.ends[i].ep(), local.data(), 64, local.desc(), scene.names[i],
                               remote.remote_address(), remote.key(), &scene.contexts[0]);
              }),
              0);
    const Completion read = scene.ends[i].tx().wait();
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_TRUE(local.holds_pattern(static_cast<unsigned>(i + 1), 64));
    ASSERT_EQ(scene.senders[i]->trecv(scene.out, 64, 2, 0, &scene.contexts[1]), 0);
    scene.ends[i].peer = scene.names[i];
    ASSERT_EQ(scene.ends[i].tsend(local, 64, 2, &scene.contexts[2]), 0);
    EXPECT_EQ(scene.senders[i]->rx().wait().context(), &scene.contexts[1]);
    EXPECT_EQ(scene.ends[i].tx().wait().context(), &scene.contexts[2]);
  }
}

TEST_P(SharedContexts, EndpointsOfOneContextReachEachOtherAndThemselves) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  Buffer out(scene.fabric, 200'000);
  for (const size_t length : {8ul, 200'000ul})
    for (size_t from = 0; from < 2; ++from)
      for (size_t to = 0; to < 2; ++to) {
        scene.ends[from].peer = scene.ends.insert(scene.ends.address(to));
        ASSERT_EQ(
            scene.ends.trecv(scene.in, length, 1, &scene.contexts[0], scene.ends.insert(scene.ends.address(from))), 0);
        ASSERT_EQ(scene.ends[from].tsend(out, length, 1, &scene.contexts[1]), 0);
        EXPECT_EQ(scene.ends[to].rx().wait().context(), &scene.contexts[0]);
        EXPECT_EQ(scene.ends[from].tx().wait().context(), &scene.contexts[1]);
      }
}

TEST_P(SharedContexts, CountersAndSelectiveCompletionsBelongToEachEndpoint) {
  SHARED_CONTEXTS_ONLY();
  Fabric fabric(target(), with_shared_receives);
  const Handle<fid_cntr> counters[] = {open_counter(fabric), open_counter(fabric)};
  size_t next = 0;
  NodeOptions options;
  options.rx_flags = FI_SELECTIVE_COMPLETION;
  options.configure = [&](fid_ep* ep) {
    require_ok(fi_ep_bind(ep, &counters[next++]->fid, FI_RECV), "fi_ep_bind counter");
  };
  {
    SharedEnds ends(fabric, 2, options);
    Buffer in(fabric, kSize), out(fabric, kSize);
    Context contexts[2];
    Node& sender = ends[0];
    sender.peer = ends.insert(ends.address(1));
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(ends.trecv(in, kSize, 1, &contexts[0]), 0);
      ASSERT_EQ(sender.tsend(out, 8, 1, &contexts[1]), 0);
      ASSERT_TRUE(sender.tx().wait().ok());
    }
    EXPECT_TRUE(reaches(counters[1].get(), 3));
    EXPECT_EQ(fi_cntr_read(counters[0].get()), 0u);
    EXPECT_TRUE(ends[1].rx().stays_silent(milliseconds(1)));
    ASSERT_EQ(ends.trecvmsg(in, 1, FI_COMPLETION, &contexts[0]), 0);
    ASSERT_EQ(sender.tsend(out, 8, 1, &contexts[1]), 0);
    EXPECT_EQ(ends[1].rx().wait().context(), &contexts[0]);
  }
}

TEST_P(SharedContexts, ReceivesOfTheContextMayWaitForACounter) {
  SHARED_CONTEXTS_ONLY();
  NEEDS_TRIGGERS(with_triggered_receives);
  Fabric fabric(target(), with_triggered_receives);
  SharedEnds ends(fabric, 2);
  const auto trigger = open_counter(fabric);
  Buffer in(fabric, kSize), out(fabric, kSize);
  fi_triggered_context waiting{};
  waiting.event_type = FI_TRIGGER_THRESHOLD;
  waiting.trigger.threshold = {trigger.get(), 1};
  Context sent;
  ASSERT_EQ(ends.trecvmsg(in, 1, FI_TRIGGER | FI_COMPLETION, &waiting), 0);
  ends[0].peer = ends.insert(ends.address(1));
  ASSERT_EQ(ends[0].tsend(out, 8, 1, &sent), 0);
  EXPECT_TRUE(ends[1].rx().stays_silent(milliseconds(20))) << "it is not posted yet";
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_EQ(ends[1].rx().wait().context(), &waiting);
}

TEST_P(SharedContexts, MessagesOfADeadSenderEndAtTheirEndpoint) {
  SHARED_CONTEXTS_ONLY();
  Scene scene(target());
  for (const size_t to : {0, 1}) {
    ASSERT_EQ(scene.tsend(0, to, 1 << 20, 1, &scene.contexts[0]), 0);
    scene.let_arrive(0, to);
  }
  scene.senders[0]->close();
  for (size_t i = 0; i < 2; ++i) ASSERT_EQ(scene.ends.trecv(scene.in, 1 << 20, 1, &scene.contexts[1 + i]), 0);
  for (size_t i = 0; i < 2; ++i) {
    const Completion ended = scene.ends[i].rx().wait();
    ASSERT_NE(ended.rc, -FI_EAGAIN) << "with its data if that had come, else with an error";
    EXPECT_EQ(ended.context(), &scene.contexts[1 + i]);
  }
  ASSERT_EQ(scene.ends.trecv(scene.in, kSize, 1, &scene.contexts[3]), 0);
  ASSERT_EQ(scene.tsend(1, 0, 8, 1, &scene.contexts[4]), 0);
  EXPECT_EQ(scene.ends[0].rx().wait().context(), &scene.contexts[3]) << "others are not concerned";
}

TEST_P(SharedContexts, MultiReceiveBufferOutlivesAnEndpointThatFilledPartOfIt) {
  SHARED_CONTEXTS_ONLY();
  for (const int pokes : {0, 1, 2, 4, 8, 16}) {
    Scene scene(target());
    Buffer in(scene.fabric, 1'100'000);
    const iovec iov{in.data(), in.size()};
    void* desc = in.desc();
    const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, &scene.contexts[0], 0};
    ASSERT_EQ(fi_recvmsg(scene.ends.srx(), &message, FI_MULTI_RECV), 0);
    ASSERT_EQ(scene.send(0, 0, 1'000'000, &scene.contexts[1]), 0);
    for (int i = 0; i < pokes; ++i) driver::poke();
    scene.ends.close(0);
    bool released = false;
    for (unsigned sent = 0; !released; ++sent) {
      ASSERT_LT(sent, 60u) << "the buffer is not given back";
      ASSERT_EQ(scene.send(1, 1, 20'000, &scene.contexts[2]), 0);
      const Completion received = scene.ends[1].rx().wait();
      ASSERT_EQ(received.context(), &scene.contexts[0]) << received;
      released = ((received.ok() ? received.entry.flags : received.error.flags) & FI_MULTI_RECV) != 0;
    }
  }
}

TEST_P(SharedContexts, FailedDeferredReceiveIsReportedByTheOldestEndpoint) {
  SHARED_CONTEXTS_ONLY();
  NEEDS_TRIGGERS(with_triggered_receives);
  Fabric fabric(target(), with_triggered_receives);
  SharedEnds ends(fabric, 2);
  const auto trigger = open_counter(fabric), completion = open_counter(fabric);
  Buffer in(fabric, kSize);
  DeferredMessage nobody(ends.srx(), FI_OP_TRECV, in, 8, /*peer=*/12345);
  ASSERT_EQ(nobody.queue(fabric, trigger.get(), 1, completion.get()), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_EQ(ends[0].rx().wait().err(), FI_EINVAL);
  EXPECT_TRUE(error_reaches(completion.get(), 1));
}

TEST_P(SharedContexts, DeferredReceivesEndWithTheirContext) {
  SHARED_CONTEXTS_ONLY();
  NEEDS_TRIGGERS(with_triggered_receives);
  Fabric fabric(target(), with_triggered_receives);
  const auto trigger = open_counter(fabric), completion = open_counter(fabric);
  Buffer in(fabric, kSize);
  Handle<fid_ep> srx = open_shared_receive(fabric);
  DeferredMessage posted(srx.get(), FI_OP_RECV, in, 8, FI_ADDR_UNSPEC);
  ASSERT_EQ(posted.queue(fabric, trigger.get(), 0, completion.get()), 0);
  EXPECT_EQ(fi_close(&srx.release()->fid), 0);
  EXPECT_EQ(posted.cancel(fabric), -FI_ENOENT);
  EXPECT_TRUE(error_reaches(completion.get(), 1));
}

TEST_P(SharedContexts, DeferredReceivesCompleteAtEndpointsWithoutTriggers) {
  SHARED_CONTEXTS_ONLY();
  NEEDS_TRIGGERS(with_triggered_receives);
  Fabric fabric(target(), with_triggered_receives);
  const auto trigger = open_counter(fabric), completion = open_counter(fabric);
  const auto srx = open_shared_receive(fabric);
  const auto av = open_vector(fabric);
  CompletionQueue queue(fabric);
  const InfoPtr info = fabric.duplicate_info();
  info->caps &= ~FI_TRIGGER;
  const auto ep =
      opened<fid_ep>("fi_endpoint", [&](fid_ep** e) { return fi_endpoint(fabric.domain(), info.get(), e, nullptr); });
  ASSERT_EQ(fi_ep_bind(ep.get(), queue.fid(), FI_TRANSMIT | FI_RECV), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), &srx->fid, 0), 0);
  ASSERT_EQ(fi_enable(ep.get()), 0);
  const Address own = Address::local_name(&ep->fid);
  fi_addr_t self = FI_ADDR_UNSPEC;
  ASSERT_EQ(fi_av_insert(av.get(), own.get(), 1, &self, 0, nullptr), 1);
  Buffer in(fabric, kSize), out(fabric, kSize);
  DeferredMessage posted(srx.get(), FI_OP_RECV, in, kSize, FI_ADDR_UNSPEC);
  ASSERT_EQ(posted.queue(fabric, trigger.get(), 0, completion.get()), 0);
  ASSERT_EQ(retry([&] { return fi_inject(ep.get(), out.data(), 8, self); }), 0);
  EXPECT_TRUE(reaches(completion.get(), 1));
  EXPECT_TRUE(queue.stays_silent(milliseconds(1)));
  DeferredMessage sent(ep.get(), FI_OP_SEND, out, 8, self);
  EXPECT_EQ(sent.queue(fabric, trigger.get(), 1, completion.get()), -FI_ENOSYS) << "the context alone has FI_TRIGGER";
}

}  // namespace shared_contexts
