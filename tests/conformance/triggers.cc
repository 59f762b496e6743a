// SPDX-License-Identifier: BSD-2-Clause
// Transfers that wait for a counter: calls with FI_TRIGGER, and their cancellation; fi_trigger(3). deferred_work.cc has
// the other interface.
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/waiting_work.h"

namespace triggers {

CONFORMANCE_TOPIC(Triggers);

#define TRIGGERS_ONLY() NEEDS_TRIGGERS(with_triggers)

namespace {

struct Scene : TriggeredPair {
  using TriggeredPair::TriggeredPair;

  fi_triggered_context* when(size_t threshold) {
    contexts.push_back(std::make_unique<fi_triggered_context>());
    contexts.back()->event_type = FI_TRIGGER_THRESHOLD;
    contexts.back()->trigger.threshold = {trigger.get(), threshold};
    return contexts.back().get();
  }
  // One byte with that tag.
  ssize_t tsend(uint64_t tag, void* context, uint64_t flags = FI_TRIGGER | FI_COMPLETION) {
    const iovec iov{out.data(), 1};
    void* desc = out.desc();
    const fi_msg_tagged message{&iov, &desc, 1, a().peer, tag, 0, context, 0};
    return fi_tsendmsg(a().ep(), &message, flags);
  }
  void expect_tags(std::initializer_list<uint64_t> tags) {
    for (const uint64_t tag : tags) {
      const Completion received = b().rx().wait();
      ASSERT_TRUE(received.ok()) << received;
      EXPECT_EQ(received.entry.tag, tag);
    }
  }

  std::vector<std::unique_ptr<fi_triggered_context>> contexts;
  Context receives[8];
};

}  // namespace

TEST_P(Triggers, SendWaitsForItsThreshold) {
  TRIGGERS_ONLY();
  Scene scene(target());
  ASSERT_EQ(scene.b().trecv(scene.in, 8, 5, 0, &scene.receives[0]), 0);
  fi_triggered_context* const context = scene.when(2);
  ASSERT_EQ(scene.tsend(5, context), 0);
  EXPECT_TRUE(scene.b().rx().stays_silent());
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(scene.b().rx().stays_silent());
  EXPECT_TRUE(scene.a().tx().stays_silent(milliseconds(1)));
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  scene.expect_tags({5});
  const Completion sent = scene.a().tx().wait();
  ASSERT_TRUE(sent.ok()) << sent;
  EXPECT_EQ(sent.context(), context);
  EXPECT_EQ(sent.entry.flags & (FI_SEND | FI_TAGGED), FI_SEND | FI_TAGGED);
}

TEST_P(Triggers, MetConditionStartsAtOnce) {
  TRIGGERS_ONLY();
  Scene scene(target());
  ASSERT_EQ(fi_cntr_set(scene.trigger.get(), 7), 0);
  ASSERT_EQ(scene.b().trecv(scene.in, 8, 5, 0, &scene.receives[0]), 0);
  ASSERT_EQ(scene.tsend(5, scene.when(7)), 0);
  scene.expect_tags({5});
  EXPECT_TRUE(scene.a().tx().wait().ok());
}

TEST_P(Triggers, OperationsStartInTheOrderOfTheirThresholds) {
  TRIGGERS_ONLY();
  Scene scene(target());
  for (size_t i = 0; i < 5; ++i) ASSERT_EQ(scene.b().trecv(scene.in, 8, 0, ~uint64_t{0}, &scene.receives[i]), 0);
  ASSERT_EQ(scene.tsend(30, scene.when(3)), 0);
  ASSERT_EQ(scene.tsend(10, scene.when(1)), 0);
  ASSERT_EQ(scene.tsend(20, scene.when(2)), 0);
  ASSERT_EQ(scene.tsend(11, scene.when(1)), 0);
  ASSERT_EQ(scene.tsend(31, scene.when(3)), 0);
  ASSERT_EQ(fi_cntr_set(scene.trigger.get(), 100), 0);
  scene.expect_tags({10, 11, 20, 30, 31});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(scene.a().tx().wait().ok());
}

TEST_P(Triggers, ReceivesMayBeTheCondition) {
  TRIGGERS_ONLY();
  Fabric fabric(target(), with_triggers);
  const auto received = open_counter(fabric);
  Pair pair(fabric, {}, counting(received.get(), FI_RECV));
  Buffer out(fabric, 64), in(fabric, 64), back(fabric, 64);
  Context contexts[3];
  fi_triggered_context answer{};
  answer.event_type = FI_TRIGGER_THRESHOLD;
  answer.trigger.threshold = {received.get(), 1};
  out.fill_pattern(3);
  ASSERT_EQ(pair.a().recv(back, 64, &contexts[0]), 0);
  ASSERT_EQ(pair.b().recv(in, 64, &contexts[1]), 0);
  // Messages are returned without calls of the application.
  const iovec iov{in.data(), 64};
  void* desc = in.desc();
  const fi_msg message{&iov, &desc, 1, pair.b().peer, &answer, 0};
  ASSERT_EQ(fi_sendmsg(pair.b().ep(), &message, FI_TRIGGER | FI_COMPLETION), 0);
  ASSERT_EQ(pair.a().send(out, 64, &contexts[2]), 0);
  const Completion returned = pair.a().rx().wait();
  ASSERT_TRUE(returned.ok()) << returned;
  EXPECT_TRUE(back.holds_pattern(3, 64));
  EXPECT_TRUE(pair.b().rx().wait().ok());
  EXPECT_EQ(pair.b().tx().wait().context(), &answer);
}

TEST_P(Triggers, ReceivesMayWait) {
  TRIGGERS_ONLY();
  Scene scene(target());
  const iovec iov{scene.in.data(), 8};
  void* desc = scene.in.desc();
  fi_triggered_context* const first = scene.when(1);
  fi_triggered_context* const second = scene.when(2);
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, first, 0};
  const fi_msg_tagged tagged{&iov, &desc, 1, FI_ADDR_UNSPEC, 9, 0, second, 0};
  ASSERT_EQ(fi_recvmsg(scene.b().ep(), &message, FI_TRIGGER | FI_COMPLETION), 0);
  ASSERT_EQ(fi_trecvmsg(scene.b().ep(), &tagged, FI_TRIGGER | FI_COMPLETION), 0);
  ASSERT_EQ(scene.a().send(scene.out, 8, &scene.receives[0]), 0);
  ASSERT_EQ(scene.a().tsend(scene.out, 8, 9, &scene.receives[1]), 0);
  EXPECT_TRUE(scene.b().rx().stays_silent());
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_EQ(scene.b().rx().wait().context(), first);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_EQ(scene.b().rx().wait().context(), second);
}

TEST_P(Triggers, RemoteMemoryMayWait) {
  TRIGGERS_ONLY();
  Scene scene(target());
  Buffer remote(scene.fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
  Buffer local(scene.fabric, 64, 0, FI_READ | FI_WRITE), copy(scene.fabric, 64, 0, FI_READ | FI_WRITE);
  local.fill_pattern(8);
  const auto access = [&](Buffer& buffer, size_t threshold, auto call) {
    const iovec iov{buffer.data(), 64};
    void* desc = buffer.desc();
    const fi_rma_iov range{remote.remote_address(), 64, remote.key()};
    const fi_msg_rma message{&iov, &desc, 1, scene.a().peer, &range, 1, scene.when(threshold), 0};
    ASSERT_EQ(call(scene.a().ep(), &message, FI_TRIGGER | FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
  };
  access(local, 1, fi_writemsg);
  EXPECT_TRUE(scene.a().tx().stays_silent());
  EXPECT_FALSE(remote.holds_pattern(8, 64));
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  const Completion written = scene.a().tx().wait();
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_TRUE(remote.holds_pattern(8, 64));
  access(copy, 2, fi_readmsg);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  const Completion read = scene.a().tx().wait();
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_TRUE(copy.holds_pattern(8, 64));
}

TEST_P(Triggers, CancellingEndsWaitingOperationsOnce) {
  TRIGGERS_ONLY();
  Scene scene(target());
  fi_triggered_context* const context = scene.when(1);
  ASSERT_EQ(scene.tsend(5, context), 0);
  ASSERT_EQ(fi_cancel(scene.a().fid(), context), 0);
  const Completion cancelled = scene.a().tx().wait();
  EXPECT_EQ(cancelled.err(), FI_ECANCELED) << cancelled;
  EXPECT_EQ(cancelled.context(), context);
  EXPECT_EQ(fi_cancel(scene.a().fid(), context), -FI_ENOENT);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(scene.a().tx().stays_silent());
}

TEST_P(Triggers, ClosingAnEndpointCancelsWaitingOperations) {
  TRIGGERS_ONLY();
  Scene scene(target());
  fi_triggered_context* const context = scene.when(1);
  ASSERT_EQ(scene.tsend(5, context), 0);
  EXPECT_EQ(fi_close(&scene.trigger->fid), -FI_EBUSY);
  scene.a().close();
  const Completion cancelled = scene.a().tx().wait();
  EXPECT_EQ(cancelled.err(), FI_ECANCELED) << cancelled;
  EXPECT_EQ(cancelled.context(), context);
  EXPECT_TRUE(scene.a().tx().stays_silent(milliseconds(1)));
}

TEST_P(Triggers, MisuseIsRefused) {
  TRIGGERS_ONLY();
  Scene scene(target());
  EXPECT_EQ(scene.tsend(5, nullptr), -FI_EINVAL);
  fi_triggered_context* const nothing = scene.when(1);
  nothing->trigger.threshold.cntr = nullptr;
  EXPECT_EQ(scene.tsend(5, nothing), -FI_EINVAL);
  fi_triggered_context* const device = scene.when(1);
  device->event_type = FI_TRIGGER_XPU;
  EXPECT_EQ(scene.tsend(5, device), -FI_ENOSYS);
  EXPECT_EQ(scene.tsend(5, scene.when(1), FI_TRIGGER | FI_INJECT), -FI_EBADFLAGS);
  Fabric elsewhere(target(), with_triggers);
  const auto foreign = open_counter(elsewhere);
  fi_triggered_context* const stranger = scene.when(1);
  stranger->trigger.threshold.cntr = foreign.get();
  EXPECT_EQ(scene.tsend(5, stranger), -FI_EINVAL);
  EXPECT_TRUE(scene.a().tx().stays_silent(milliseconds(1)));
}

TEST_P(Triggers, EndpointsWithoutTheCapabilityRefuseTheFlag) {
  TRIGGERS_ONLY();
  Fabric fabric(target(), with_triggers);
  const InfoPtr info = fabric.duplicate_info();
  info->caps &= ~FI_TRIGGER;
  CompletionQueue queue(fabric);
  EventQueue events(fabric);
  const auto counter = open_counter(fabric);
  fi_av_attr vector{};
  const auto av =
      opened<fid_av>("fi_av_open", [&](fid_av** v) { return fi_av_open(fabric.domain(), &vector, v, nullptr); });
  const auto ep =
      opened<fid_ep>("fi_endpoint", [&](fid_ep** e) { return fi_endpoint(fabric.domain(), info.get(), e, nullptr); });
  ASSERT_EQ(fi_ep_bind(ep.get(), queue.fid(), FI_TRANSMIT | FI_RECV), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), events.fid(), 0), 0);
  if (!target().connected()) {
    ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
  }
  ASSERT_EQ(fi_enable(ep.get()), 0);
  Buffer in(fabric, 8);
  const iovec iov{in.data(), 8};
  void* desc = in.desc();
  fi_triggered_context context{};
  context.event_type = FI_TRIGGER_THRESHOLD;
  context.trigger.threshold = {counter.get(), 1};
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, &context, 0};
  EXPECT_EQ(fi_recvmsg(ep.get(), &message, FI_TRIGGER | FI_COMPLETION), -FI_EBADFLAGS);
  DeferredMessage work(ep.get(), FI_OP_RECV, in, 8, FI_ADDR_UNSPEC);
  EXPECT_EQ(work.queue(fabric, counter.get(), 1, nullptr), -FI_ENOSYS);
}

}  // namespace triggers
