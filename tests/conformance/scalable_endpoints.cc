// SPDX-License-Identifier: BSD-2-Clause
// Scalable endpoints: contexts with completions of their own behind one name, receive contexts that the sender chooses,
// the order of closing, and misuse; fi_endpoint(3) SCALABLE ENDPOINTS, fi_av(3) fi_rx_addr.
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <array>
#include <cstring>
#include <thread>

#include "fixture/all_lengths.h"
#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/scalable_end.h"
#include "fixture/waiting_work.h"

namespace scalable_endpoints {

CONFORMANCE_TOPIC(ScalableEndpoints);

#define SCALABLE_ONLY()                                                \
  if (target().ep_type != FI_EP_RDM) GTEST_SKIP() << "FI_EP_RDM only"; \
  if (!Fabric::offers(target(), with_contexts(2, 2))) FAIL() << "no scalable endpoints are offered"

namespace {

constexpr size_t kContexts = 4;

// Two scalable ends that are inserted at each other.
struct Scene {
  explicit Scene(const Target& target, size_t count = kContexts)
      : fabric(target, with_contexts(count, count)),
        a(fabric, count),
        b(fabric, count),
        out(fabric, 1 << 20),
        in(fabric, 1 << 20) {
    to_b = a.insert(b.address());
    to_a = b.insert(a.address());
  }
  fi_addr_t b_context(size_t index) const { return a.context_of(to_b, index); }
  ssize_t tsend(size_t from, size_t to, size_t length, uint64_t tag, void* context) {
    return retry([&] { return fi_tsend(a.tx(from), out.data(), length, out.desc(), b_context(to), tag, context); });
  }
  ssize_t trecv(size_t at, size_t length, uint64_t tag, void* context, uint64_t ignore = 0) {
    return retry(
        [&] { return fi_trecv(b.rx(at), in.data(), length, in.desc(), FI_ADDR_UNSPEC, tag, ignore, context); });
  }

  Fabric fabric;
  ScalableEnd a, b;
  Buffer out, in;
  fi_addr_t to_b, to_a;
  Context contexts[64];
};

}  // namespace

TEST_P(ScalableEndpoints, SenderChoosesTheReceiveContext) {
  SCALABLE_ONLY();
  Scene scene(target());
  for (size_t i = 0; i < kContexts; ++i) ASSERT_EQ(scene.trecv(i, 100, 7, &scene.contexts[i]), 0);
  for (const size_t to : {2, 0, 3, 1}) {
    scene.out.fill_pattern(static_cast<unsigned>(to));
    ASSERT_EQ(scene.tsend(1, to, 100, 7, &scene.contexts[10 + to]), 0);
    const Completion received = scene.b.rx_queue(to).wait();
    ASSERT_TRUE(received.ok()) << received;
    EXPECT_EQ(received.context(), &scene.contexts[to]);
    EXPECT_TRUE(scene.in.holds_pattern(static_cast<unsigned>(to), 100));
    const Completion sent = scene.a.tx_queue(1).wait();
    ASSERT_TRUE(sent.ok()) << sent;
    EXPECT_EQ(sent.context(), &scene.contexts[10 + to]);
  }
  for (size_t i = 0; i < kContexts; ++i) {
    EXPECT_TRUE(scene.a.tx_queue(i).stays_silent(milliseconds(1)));
    EXPECT_TRUE(scene.b.rx_queue(i).stays_silent(milliseconds(1)));
  }
}

TEST_P(ScalableEndpoints, AllLengthsArriveInAllContextsExpectedOrUnexpected) {
  SCALABLE_ONLY();
  Scene scene(target());
  const auto from = [](const OneMessage& m) { return (m.seed - 1) % kContexts; };
  const auto to = [](const OneMessage& m) { return ((m.seed - 1) / 2 + 1) % kContexts; };
  expect_all_lengths_to_arrive(
      scene.out, scene.in,
      [&](const OneMessage& m) {
        if (m.tagged) return scene.trecv(to(m), m.length, m.seed, &scene.contexts[0]);
        return retry([&] {
          return fi_recv(scene.b.rx(to(m)), scene.in.data(), m.length, scene.in.desc(), FI_ADDR_UNSPEC,
                         &scene.contexts[0]);
        });
      },
      [&](const OneMessage& m) {
        if (m.tagged) return scene.tsend(from(m), to(m), m.length, m.seed, &scene.contexts[1]);
        return retry([&] {
          return fi_send(scene.a.tx(from(m)), scene.out.data(), m.length, scene.out.desc(), scene.b_context(to(m)),
                         &scene.contexts[1]);
        });
      },
      [&](const OneMessage& m) -> CompletionQueue& { return scene.b.rx_queue(to(m)); },
      [&](const OneMessage& m) -> CompletionQueue& { return scene.a.tx_queue(from(m)); });
}

TEST_P(ScalableEndpoints, MessagesWaitForContextsThatAreNotOpenYet) {
  SCALABLE_ONLY();
  Fabric fabric(target(), with_contexts(2, 2));
  ScalableEnd a(fabric, 2), b(fabric, 2, /*opened=*/1);
  const fi_addr_t to_b = a.insert(b.address());
  Buffer out(fabric, 64), in(fabric, 64);
  Context contexts[2];
  out.fill_pattern(4);
  ASSERT_EQ(
      retry([&] { return fi_tsend(a.tx(0), out.data(), 64, out.desc(), a.context_of(to_b, 1), 3, &contexts[0]); }), 0);
  ASSERT_TRUE(a.tx_queue(0).wait().ok());
  b.open_next();
  ASSERT_EQ(fi_trecv(b.rx(1), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, 3, 0, &contexts[1]), 0);
  ASSERT_TRUE(b.rx_queue(1).wait().ok());
  EXPECT_TRUE(in.holds_pattern(4, 64));
}

TEST_P(ScalableEndpoints, AnswersGoToTheSourcesName) {
  SCALABLE_ONLY();
  Scene scene(target());
  // A receive directed at one sender, named with a context index, which applies to sends only.
  ASSERT_EQ(fi_trecv(scene.b.rx(2), scene.in.data(), 8, scene.in.desc(), scene.b.context_of(scene.to_a, 3), 1, 0,
                     &scene.contexts[0]),
            0);
  ASSERT_EQ(scene.tsend(0, 2, 8, 1, &scene.contexts[1]), 0);
  fi_cq_tagged_entry entry{};
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  const auto deadline = after(kPatience);
  ssize_t got = -FI_EAGAIN;
  while (got == -FI_EAGAIN && Clock::now() < deadline) {
    driver::poke();
    got = fi_cq_readfrom(scene.b.rx_queue(2).get(), &entry, 1, &source);
  }
  ASSERT_EQ(got, 1);
  EXPECT_EQ(source, scene.to_a);
  ASSERT_EQ(fi_trecv(scene.a.rx(3), scene.in.data(), 8, scene.in.desc(), FI_ADDR_UNSPEC, 2, 0, &scene.contexts[2]), 0);
  ASSERT_EQ(fi_tsend(scene.b.tx(1), scene.out.data(), 8, scene.out.desc(), scene.b.context_of(source, 3), 2,
                     &scene.contexts[3]),
            0);
  EXPECT_EQ(scene.a.rx_queue(3).wait().context(), &scene.contexts[2]);
}

TEST_P(ScalableEndpoints, PlainEndpointsReachContextsAndAreReached) {
  SCALABLE_ONLY();
  Fabric fabric(target(), with_contexts(kContexts, kContexts));
  Fabric plain_fabric(target());
  ScalableEnd scalable(fabric, kContexts);
  DatagramEnd plain(plain_fabric);
  const fi_addr_t to_plain = scalable.insert(plain.address());
  const fi_addr_t first = plain.insert(scalable.address());
  Buffer out(fabric, 64), in(fabric, 64);
  Context contexts[4];
  ASSERT_EQ(fi_trecv(scalable.rx(0), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, 1, 0, &contexts[0]), 0);
  plain->peer = first;
  ASSERT_EQ(plain->tsend(out, 64, 1, &contexts[1]), 0);
  EXPECT_EQ(scalable.rx_queue(0).wait().context(), &contexts[0]);
  ASSERT_TRUE(plain->tx().wait().ok());
  for (size_t from = 0; from < kContexts; ++from) {
    ASSERT_EQ(plain->trecv(in, 64, 2, 0, &contexts[2]), 0);
    ASSERT_EQ(fi_tsend(scalable.tx(from), out.data(), 64, out.desc(), to_plain, 2, &contexts[3]), 0);
    ASSERT_TRUE(plain->rx().wait().ok());
    ASSERT_TRUE(scalable.tx_queue(from).wait().ok());
  }
}

TEST_P(ScalableEndpoints, RemoteMemoryIsReachedFromEveryContext) {
  SCALABLE_ONLY();
  Scene scene(target());
  Buffer remote(scene.fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(scene.fabric, 64, 0, FI_READ | FI_WRITE);
  for (size_t i = 0; i < kContexts; ++i) {
    local.fill_pattern(static_cast<unsigned>(i + 1));
    ASSERT_EQ(retry([&] {
                return fi_write(scene.a.tx(i), local.data(), 64, local.desc(), scene.b_context(i),
                                remote.remote_address(), remote.key(), &scene.contexts[0]);
              }),
              0);
    ASSERT_TRUE(scene.a.tx_queue(i).wait().ok());
    ASSERT_EQ(retry([&] {
                return fi_read(scene.a.tx(i), local.data(), 64, local.desc(), scene.to_b, remote.remote_address(),
                               remote.key(), &scene.contexts[1]);
              }),
              0);
    const Completion read = scene.a.tx_queue(i).wait();
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(read.context(), &scene.contexts[1]);
    EXPECT_TRUE(local.holds_pattern(static_cast<unsigned>(i + 1), 64));
  }
}

TEST_P(ScalableEndpoints, AtomicOperationsWorkFromEveryContext) {
  SCALABLE_ONLY();
  const HintsEditor with_atomics = [](fi_info& hints) {
    with_contexts(2, 2)(hints);
    hints.caps |= FI_ATOMIC;
  };
  if (!Fabric::offers(target(), with_atomics)) GTEST_SKIP() << "no atomic operations";
  Fabric fabric(target(), with_atomics);
  ScalableEnd a(fabric, 2), b(fabric, 2);
  const fi_addr_t to_b = a.insert(b.address());
  Buffer remote(fabric, 8, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(fabric, 16, 0, FI_READ | FI_WRITE);
  auto* const words = reinterpret_cast<uint64_t*>(local.data());
  words[0] = 5;
  Context context;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(retry([&] {
                return fi_fetch_atomic(a.tx(i), &words[0], 1, local.desc(), &words[1], local.desc(), to_b,
                                       remote.remote_address(), remote.key(), FI_UINT64, FI_SUM, &context);
              }),
              0);
    ASSERT_TRUE(a.tx_queue(i).wait().ok());
    EXPECT_EQ(words[1], 5 * i);
  }
}

// Programs with one-sided communication only bind no queue there.
TEST_P(ScalableEndpoints, ReceiveContextsWithoutMessagesNeedNoQueue) {
  SCALABLE_ONLY();
  for (const uint64_t caps : {uint64_t{FI_RMA}, uint64_t{FI_RMA | FI_MSG}}) {
    const HintsEditor edit = [&](fi_info& hints) {
      with_contexts(1, 1)(hints);
      hints.caps = caps;
    };
    Fabric fabric(target(), edit);
    ScalableEnd end(fabric, 1, 0);
    fid_ep* context = nullptr;
    ASSERT_EQ(fi_rx_context(end.sep(), 0, nullptr, &context, nullptr), 0);
    const Handle<fid_ep> owner(context);
    EXPECT_EQ(fi_enable(context), caps == FI_RMA ? 0 : -FI_ENOCQ);
  }
}

// MPICH asks receive contexts for FI_NAMED_RX_CTX, which only transmit attributes have.
TEST_P(ScalableEndpoints, ContextsMayNameCapabilitiesOfTheOtherDirection) {
  SCALABLE_ONLY();
  Fabric fabric(target(), with_contexts(1, 1));
  ScalableEnd end(fabric, 1, 0);
  fi_rx_attr attr = *fabric.info()->rx_attr;
  fid_ep* context = nullptr;
  attr.caps = FI_TAGGED | FI_ATOMIC;
  EXPECT_EQ(fi_rx_context(end.sep(), 0, &attr, &context, nullptr), -FI_EINVAL) << "the endpoint has no FI_ATOMIC";
  attr.caps = FI_TAGGED | FI_NAMED_RX_CTX;
  ASSERT_EQ(fi_rx_context(end.sep(), 0, &attr, &context, nullptr), 0);
  const Handle<fid_ep> owner(context);
}

// LFI, the transport of the file system Expand, asks both contexts for it, but not fi_getinfo.
TEST_P(ScalableEndpoints, ContextsMayRequestNamesThatTheHintsLeftOut) {
  SCALABLE_ONLY();
  Fabric fabric(target(), [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED; });
  ScalableEnd end(fabric, 1, 0);
  fi_tx_attr tx = *fabric.info()->tx_attr;
  tx.caps |= FI_NAMED_RX_CTX;
  fid_ep* context = nullptr;
  ASSERT_EQ(fi_tx_context(end.sep(), 0, &tx, &context, nullptr), 0);
  const Handle<fid_ep> transmits(context);
  fi_rx_attr rx = *fabric.info()->rx_attr;
  rx.caps |= FI_NAMED_RX_CTX;
  ASSERT_EQ(fi_rx_context(end.sep(), 0, &rx, &context, nullptr), 0);
  const Handle<fid_ep> receives(context);
}

TEST_P(ScalableEndpoints, InjectedMessagesArriveAlthoughTheirContextCloses) {
  SCALABLE_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  Scene scene(target());
  ASSERT_EQ(fi_trecv(scene.b.rx(1), scene.in.data(), 8, scene.in.desc(), FI_ADDR_UNSPEC, 3, 0, &scene.contexts[0]), 0);
  ASSERT_EQ(fi_tinject(scene.a.tx(0), "message", 8, scene.b_context(1), 3), 0);
  scene.a.close_tx(0);
  EXPECT_EQ(scene.b.rx_queue(1).wait().context(), &scene.contexts[0]);
}

TEST_P(ScalableEndpoints, ContextsMatchInTheOrderOfTheirOwnMessages) {
  SCALABLE_ONLY();
  constexpr size_t kEach = 100;
  Scene scene(target(), 2);
  Buffer numbers(scene.fabric, 2 * kEach * sizeof(uint64_t)), got(scene.fabric, 2 * kEach * sizeof(uint64_t));
  auto* const sent = reinterpret_cast<uint64_t*>(numbers.data());
  auto* const received = reinterpret_cast<uint64_t*>(got.data());
  std::vector<Context> contexts(4 * kEach);
  for (size_t i = 0; i < kEach; ++i)
    for (size_t to = 0; to < 2; ++to) {
      ASSERT_EQ(fi_trecv(scene.b.rx(to), &received[to * kEach + i], 8, got.desc(), FI_ADDR_UNSPEC, 1, 0,
                         &contexts[to * kEach + i]),
                0);
    }
  for (size_t i = 0; i < kEach; ++i)
    for (size_t to = 0; to < 2; ++to) {
      sent[to * kEach + i] = i;
      ASSERT_EQ(retry([&] {
                  return fi_tsend(scene.a.tx(to), &sent[to * kEach + i], 8, numbers.desc(), scene.b_context(to), 1,
                                  &contexts[(to + 2) * kEach + i]);
                }),
                0);
    }
  for (size_t to = 0; to < 2; ++to)
    for (size_t i = 0; i < kEach; ++i) {
      ASSERT_TRUE(scene.b.rx_queue(to).wait().ok());
      ASSERT_TRUE(scene.a.tx_queue(to).wait().ok());
    }
  for (size_t to = 0; to < 2; ++to)
    for (size_t i = 0; i < kEach; ++i) EXPECT_EQ(received[to * kEach + i], i);
}

TEST_P(ScalableEndpoints, CountersBelongToContexts) {
  SCALABLE_ONLY();
  Fabric fabric(target(), with_contexts(2, 2));
  const auto sends = open_counter(fabric), receives = open_counter(fabric);
  ScalableEnd a(fabric, 2, 2, [&](fid_ep* context, size_t index, bool transmits) {
    if (transmits && index == 1) require_ok(fi_ep_bind(context, &sends->fid, FI_SEND), "fi_ep_bind");
  });
  ScalableEnd b(fabric, 2);
  ASSERT_EQ(fi_ep_bind(b.rx(0), &receives->fid, FI_RECV), 0) << "an enabled context takes counters too";
  const fi_addr_t to_b = a.insert(b.address());
  Buffer out(fabric, 64), in(fabric, 64);
  Context contexts[8];
  for (size_t i = 0; i < 4; ++i) {
    const size_t from = i % 2, to = i / 2;
    ASSERT_EQ(fi_trecv(b.rx(to), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, i, 0, &contexts[i]), 0);
    ASSERT_EQ(fi_tsend(a.tx(from), out.data(), 64, out.desc(), a.context_of(to_b, to), i, &contexts[4 + i]), 0);
    ASSERT_TRUE(b.rx_queue(to).wait().ok());
    ASSERT_TRUE(a.tx_queue(from).wait().ok());
  }
  EXPECT_TRUE(reaches(sends.get(), 2));
  EXPECT_TRUE(reaches(receives.get(), 2));
}

TEST_P(ScalableEndpoints, ReceivesOfOneContextAreCancelledAlone) {
  SCALABLE_ONLY();
  Scene scene(target(), 2);
  ASSERT_EQ(scene.trecv(0, 8, 1, &scene.contexts[0]), 0);
  ASSERT_EQ(scene.trecv(1, 8, 1, &scene.contexts[0]), 0);
  ASSERT_EQ(fi_cancel(&scene.b.rx(1)->fid, &scene.contexts[0]), 0);
  EXPECT_EQ(scene.b.rx_queue(1).wait().err(), FI_ECANCELED);
  EXPECT_EQ(fi_cancel(&scene.b.rx(1)->fid, &scene.contexts[0]), -FI_ENOENT);
  ASSERT_EQ(scene.tsend(0, 0, 8, 1, &scene.contexts[1]), 0);
  EXPECT_TRUE(scene.b.rx_queue(0).wait().ok());
}

TEST_P(ScalableEndpoints, ContextsAreClosedBeforeTheEndpoint) {
  SCALABLE_ONLY();
  Scene scene(target(), 2);
  ASSERT_EQ(scene.trecv(1, 8, 1, &scene.contexts[0]), 0);
  EXPECT_EQ(fi_close(&scene.b.sep()->fid), -FI_EBUSY);
  scene.b.close_rx(1);
  const Completion cancelled = scene.b.rx_queue(1).wait();
  EXPECT_EQ(cancelled.err(), FI_ECANCELED) << cancelled;
  EXPECT_EQ(fi_close(&scene.b.sep()->fid), -FI_EBUSY);
  // The others continue.
  ASSERT_EQ(scene.trecv(0, 8, 2, &scene.contexts[1]), 0);
  ASSERT_EQ(scene.tsend(0, 0, 8, 2, &scene.contexts[2]), 0);
  EXPECT_TRUE(scene.b.rx_queue(0).wait().ok());
  // And it may be opened again.
  scene.b.reopen_rx(1);
  ASSERT_EQ(scene.trecv(1, 8, 3, &scene.contexts[3]), 0);
  ASSERT_EQ(scene.tsend(1, 1, 8, 3, &scene.contexts[4]), 0);
  EXPECT_TRUE(scene.b.rx_queue(1).wait().ok());
}

TEST_P(ScalableEndpoints, ClosingATransmitContextEndsItsOperationsOnce) {
  SCALABLE_ONLY();
  Scene scene(target(), 2);
  // This message is never received; it waits at its sender.
  ASSERT_EQ(scene.tsend(0, 0, 1 << 20, 1, &scene.contexts[0]), 0);
  for (int i = 0; i < 20; ++i) driver::poke();
  scene.a.close_tx(0);
  Completion ended = scene.a.tx_queue(0).wait();
  EXPECT_EQ(ended.context(), &scene.contexts[0]);
  if (!ended.ok()) {
    EXPECT_EQ(ended.err(), FI_ECANCELED) << ended;
  }
  EXPECT_TRUE(scene.a.tx_queue(0).stays_silent(milliseconds(20)));
  ASSERT_EQ(scene.trecv(1, 8, 2, &scene.contexts[1]), 0);
  ASSERT_EQ(scene.tsend(1, 1, 8, 2, &scene.contexts[2]), 0);
  EXPECT_TRUE(scene.b.rx_queue(1).wait().ok());
  EXPECT_TRUE(scene.a.tx_queue(1).wait().ok());
}

TEST_P(ScalableEndpoints, ClosingAReceiveContextEndsTheMessagesThatArriveThere) {
  SCALABLE_ONLY();
  constexpr size_t kLongest = size_t{4} << 20;
  for (const int rounds : {1, 2, 3, 4, 6, 8, 12, 20, 40}) {
    Scene scene(target(), 2);
    const size_t length = scene.fabric.length_up_to(kLongest);
    Buffer out(scene.fabric, length), in(scene.fabric, length);
    ASSERT_EQ(fi_trecv(scene.b.rx(1), in.data(), length, in.desc(), FI_ADDR_UNSPEC, 1, 0, &scene.contexts[0]), 0);
    ASSERT_EQ(retry([&] {
                return fi_tsend(scene.a.tx(1), out.data(), length, out.desc(), scene.b_context(1), 1,
                                &scene.contexts[1]);
              }),
              0);
    for (int i = 0; i < rounds; ++i) driver::poke();
    scene.b.close_rx(1);
    std::memset(in.data(), 'x', length);
    const Completion received = scene.b.rx_queue(1).wait();
    EXPECT_EQ(received.context(), &scene.contexts[0]);
    if (!received.ok()) {
      EXPECT_EQ(received.err(), FI_ECANCELED) << received;
    }
    // The memory is the application's again, while others continue, perhaps on a new connection.
    const fi_addr_t back = scene.b.context_of(scene.to_a, 0);
    ASSERT_EQ(fi_trecv(scene.a.rx(0), scene.in.data(), 8, scene.in.desc(), FI_ADDR_UNSPEC, 2, 0, &scene.contexts[2]),
              0);
    ASSERT_EQ(retry([&] {
                return fi_tsend(scene.b.tx(0), scene.out.data(), 8, scene.out.desc(), back, 2, &scene.contexts[3]);
              }),
              0);
    EXPECT_TRUE(scene.b.tx_queue(0).wait().ok());
    EXPECT_TRUE(scene.a.rx_queue(0).wait().ok());
    for (int i = 0; i < 200; ++i) driver::poke();
    EXPECT_TRUE(in.data()[0] == 'x' && std::memcmp(in.data(), in.data() + 1, length - 1) == 0) << rounds;
  }
}

// Programs that were built with headers before 1.9 have no such member, but other memory there.
TEST_P(ScalableEndpoints, TrafficClassInAttributesOfAContextIsNotWritten) {
  SCALABLE_ONLY();
  Fabric fabric(target(), with_contexts(2, 2));
  ScalableEnd end(fabric, 2, 0);
  fi_tx_attr attr = *fabric.info()->tx_attr;
  attr.tclass = 0x5a5a5a5a;
  fid_ep* context = nullptr;
  ASSERT_EQ(fi_tx_context(end.sep(), 0, &attr, &context, nullptr), 0);
  EXPECT_EQ(attr.tclass, 0x5a5a5a5au);
  EXPECT_EQ(fi_close(&context->fid), 0);
}

TEST_P(ScalableEndpoints, MisuseIsRefused) {
  SCALABLE_ONLY();
  Fabric fabric(target(), with_contexts(2, 2));
  ScalableEnd end(fabric, 2);
  fid_ep* none = nullptr;
  EXPECT_EQ(fi_tx_context(end.sep(), 2, nullptr, &none, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_rx_context(end.sep(), 2, nullptr, &none, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_rx_context(end.sep(), -1, nullptr, &none, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_tx_context(end.sep(), 1, nullptr, &none, nullptr), -FI_EBUSY);
  EXPECT_EQ(fi_rx_context(end.sep(), 0, nullptr, &none, nullptr), -FI_EBUSY);
  EXPECT_EQ(none, nullptr);
  // The endpoint itself transfers nothing, and each context serves one direction.
  Buffer memory(fabric, 8);
  const fi_addr_t self = end.insert(end.address());
  EXPECT_EQ(fi_send(end.sep(), memory.data(), 8, memory.desc(), self, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_recv(end.tx(0), memory.data(), 8, memory.desc(), self, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_tsend(end.rx(0), memory.data(), 8, memory.desc(), self, 1, nullptr), -FI_ENOSYS);
  CompletionQueue queue(fabric);
  EXPECT_EQ(fi_scalable_ep_bind(end.sep(), queue.fid(), FI_TRANSMIT), -FI_EINVAL);

  // Contexts that are not enabled, or lack a required binding.
  const InfoPtr info = fabric.duplicate_info();
  const auto sep = opened<fid_ep>(
      "fi_scalable_ep", [&](fid_ep** ep) { return fi_scalable_ep(fabric.domain(), info.get(), ep, nullptr); });
  const auto tx =
      opened<fid_ep>("fi_tx_context", [&](fid_ep** ep) { return fi_tx_context(sep.get(), 0, nullptr, ep, nullptr); });
  EXPECT_EQ(fi_send(tx.get(), memory.data(), 8, memory.desc(), 0, nullptr), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_ep_bind(tx.get(), queue.fid(), FI_RECV), -FI_EINVAL);
  EXPECT_EQ(fi_enable(tx.get()), -FI_ENOCQ);
  ASSERT_EQ(fi_ep_bind(tx.get(), queue.fid(), FI_TRANSMIT), 0);
  EXPECT_EQ(fi_enable(tx.get()), -FI_ENOAV);

  // A queue for both directions, and a plain endpoint with the same info: Chapel's runtime opens these.
  const auto other =
      opened<fid_ep>("fi_tx_context", [&](fid_ep** ep) { return fi_tx_context(sep.get(), 1, nullptr, ep, nullptr); });
  EXPECT_EQ(fi_ep_bind(other.get(), queue.fid(), FI_TRANSMIT | FI_RECV), 0);
  const auto plain =
      opened<fid_ep>("fi_endpoint", [&](fid_ep** ep) { return fi_endpoint(fabric.domain(), info.get(), ep, nullptr); });
  EXPECT_EQ(fi_ep_bind(plain.get(), queue.fid(), FI_TRANSMIT | FI_RECV), 0);

  // More contexts than the limit.
  info->ep_attr->rx_ctx_cnt = fabric.info()->domain_attr->max_ep_rx_ctx + 1;
  EXPECT_EQ(fi_scalable_ep(fabric.domain(), info.get(), &none, nullptr), -FI_EINVAL);
  EXPECT_FALSE(Fabric::offers(target(), with_contexts(1, fabric.info()->domain_attr->max_ep_rx_ctx + 1)));
}

TEST_P(ScalableEndpoints, MessageForANonexistentContextEndsItsConnectionOnly) {
  SCALABLE_ONLY();
  Fabric fabric(target(), with_contexts(4, 4));
  ScalableEnd a(fabric, 4);
  ScalableEnd b(fabric, 1);
  const fi_addr_t to_b = a.insert(b.address());
  Buffer out(fabric, 64), in(fabric, 64);
  Context contexts[3];
  ASSERT_EQ(fi_trecv(b.rx(0), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, 1, 0, &contexts[0]), 0);
  ASSERT_EQ(
      retry([&] { return fi_tsend(a.tx(0), out.data(), 64, out.desc(), a.context_of(to_b, 3), 1, &contexts[1]); }), 0);
  (void)a.tx_queue(0).wait();  // may have completed before the test reads it
  EXPECT_TRUE(b.rx_queue(0).stays_silent());
  ASSERT_EQ(retry([&] { return fi_tsend(a.tx(1), out.data(), 64, out.desc(), to_b, 1, &contexts[2]); }), 0);
  EXPECT_TRUE(b.rx_queue(0).wait().ok());
}

TEST_P(ScalableEndpoints, TriggersWorkInContexts) {
  SCALABLE_ONLY();
  const HintsEditor triggered = [](fi_info& hints) {
    with_contexts(2, 2)(hints);
    hints.caps |= FI_TRIGGER;
  };
  Fabric fabric(target(), triggered);
  const auto trigger = open_counter(fabric), done = open_counter(fabric);
  ScalableEnd a(fabric, 2), b(fabric, 2);
  const fi_addr_t to_b = a.insert(b.address());
  Buffer out(fabric, 64), in(fabric, 64);
  Context context;
  ASSERT_EQ(fi_trecv(b.rx(1), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, 1, 0, &context), 0);
  DeferredMessage send(a.tx(1), FI_OP_TSEND, out, 64, a.context_of(to_b, 1), 1);
  ASSERT_EQ(send.queue(fabric, trigger.get(), 1, done.get()), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(b.rx_queue(1).wait().ok());
  EXPECT_TRUE(reaches(done.get(), 1));
  EXPECT_TRUE(a.tx_queue(1).stays_silent(milliseconds(1)));
}

TEST_P(ScalableEndpoints, ThreadsUseContextsConcurrently) {
  SCALABLE_ONLY();
  constexpr size_t kEach = 200;
  Scene scene(target(), kContexts);
  std::vector<std::thread> threads;
  std::array<size_t, kContexts> sent{}, received{};
  for (size_t i = 0; i < kContexts; ++i)
    threads.emplace_back([&, i] {
      std::vector<Context> contexts(2 * kEach);
      Buffer in(scene.fabric, 8), out(scene.fabric, 8);
      ProgressLimit limit;
      for (size_t n = 0; n < kEach; ++n)
        if (fi_trecv(scene.b.rx(i), in.data(), 8, in.desc(), FI_ADDR_UNSPEC, i, 0, &contexts[n]) != 0) return;
      size_t posted = 0;
      while ((sent[i] < kEach || received[i] < kEach) && !limit.expired()) {
        const size_t before = sent[i] + received[i];
        if (posted < kEach)
          posted +=
              fi_tsend(scene.a.tx(i), out.data(), 8, out.desc(), scene.b_context(i), i, &contexts[kEach + posted]) == 0;
        sent[i] += scene.a.tx_queue(i).read().ok();
        received[i] += scene.b.rx_queue(i).read().ok();
        if (sent[i] + received[i] != before) limit.progressed();
      }
    });
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < kContexts; ++i) {
    EXPECT_EQ(sent[i], kEach) << i;
    EXPECT_EQ(received[i], kEach) << i;
  }
}

}  // namespace scalable_endpoints
