// SPDX-License-Identifier: BSD-2-Clause
// Work queued at a domain until a counter reaches a value, its completion counters, and its cancellation;
// fi_trigger(3), DEFERRED WORK QUEUES.
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <atomic>
#include <thread>

#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/waiting_work.h"

namespace deferred_work {

CONFORMANCE_TOPIC(DeferredWork);

#define DEFERRED_WORK_ONLY() NEEDS_TRIGGERS(with_triggers)

namespace {

struct Scene : TriggeredPair {
  using TriggeredPair::TriggeredPair;

  int control(int command, void* argument) { return fi_control(&fabric.domain()->fid, command, argument); }
  bool silent() { return a().tx().stays_silent() && b().rx().stays_silent(milliseconds(1)); }

  Context contexts[4];
};

const HintsEditor kWithAtomics = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_TRIGGER; };
const HintsEditor kAutomatic = [](fi_info& hints) {
  with_triggers(hints);
  hints.domain_attr->progress = hints.domain_attr->control_progress = FI_PROGRESS_AUTO;
};

}  // namespace

TEST_P(DeferredWork, SendStartsAtItsThresholdAndCountsAtItsCounter) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  scene.out.fill_pattern(1);
  ASSERT_EQ(scene.b().recv(scene.in, 4096, &scene.contexts[0]), 0);
  DeferredMessage send(scene.a().ep(), FI_OP_SEND, scene.out, 4096, scene.a().peer);
  ASSERT_EQ(send.queue(scene.fabric, scene.trigger.get(), 2, scene.done.get()), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(scene.silent());
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 0u);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(scene.b().rx().wait().ok());
  EXPECT_TRUE(scene.in.holds_pattern(1, 4096));
  EXPECT_TRUE(reaches(scene.done.get(), 1));
  EXPECT_TRUE(scene.a().tx().stays_silent());
}

// FI_PEEK makes progress, but starts no work.
TEST_P(DeferredWork, SleeperStartsWorkThatBecomesDueWhileAnotherThreadPeeks) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  constexpr unsigned kRounds = 200;
  std::vector<std::unique_ptr<DeferredCount>> works;
  for (unsigned round = 1; round <= kRounds; ++round) {
    works.push_back(std::make_unique<DeferredCount>(FI_OP_CNTR_ADD, scene.done.get(), 1));
    ASSERT_EQ(works.back()->queue(scene.fabric, scene.trigger.get(), round, nullptr), 0);
  }
  std::atomic<unsigned> counted{0};
  std::atomic<bool> stop{false};
  std::thread peeker([&] {
    fi_msg_tagged message{};
    message.addr = FI_ADDR_UNSPEC;
    message.context = &scene.contexts[0];
    while (!stop) {
      fi_cq_err_entry missing{};
      fi_trecvmsg(scene.b().ep(), &message, FI_PEEK);
      fi_cq_readerr(scene.b().rx().get(), &missing, 0);
    }
  });
  std::thread sleeper([&] {
    while (counted < kRounds && fi_cntr_wait(scene.done.get(), counted + 1, kWaitMs) == 0) ++counted;
  });
  const auto start = Clock::now();
  for (unsigned round = 1; round <= kRounds && elapsed_ms(start) < kPromptMs; ++round) {
    std::this_thread::sleep_for(milliseconds(2));
    ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
    while (counted < round && elapsed_ms(start) < kPromptMs) std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(counted, kRounds) << "in " << elapsed_ms(start) << " ms";
  stop = true;
  peeker.join();
  fi_cntr_add(scene.done.get(), kRounds);
  sleeper.join();
}

TEST_P(DeferredWork, CompletionsAreWrittenOnRequest) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  ASSERT_EQ(scene.b().trecv(scene.in, 8, 7, 0, &scene.contexts[0]), 0);
  DeferredMessage send(scene.a().ep(), FI_OP_TSEND, scene.out, 8, scene.a().peer, 7, FI_COMPLETION, &scene.contexts[1]);
  ASSERT_EQ(send.queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  const Completion sent = scene.a().tx().wait();
  ASSERT_TRUE(sent.ok()) << sent;
  EXPECT_EQ(sent.context(), &scene.contexts[1]);
  EXPECT_TRUE(reaches(scene.done.get(), 1));
  EXPECT_EQ(scene.b().rx().wait().entry.tag, 7u);
}

TEST_P(DeferredWork, FlagsMaySayThatItIsDeferred) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  ASSERT_EQ(scene.b().recv(scene.in, 8, &scene.contexts[0]), 0);
  DeferredMessage send(scene.a().ep(), FI_OP_SEND, scene.out, 8, scene.a().peer, 0, FI_TRIGGER);
  ASSERT_EQ(send.queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(scene.b().rx().wait().ok());
  EXPECT_TRUE(reaches(scene.done.get(), 1));
}

TEST_P(DeferredWork, AliasesTakeWork) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  fid_ep *sender = nullptr, *receiver = nullptr, *again = nullptr;
  ASSERT_EQ(fi_ep_alias(scene.a().ep(), &sender, FI_TRANSMIT | FI_COMPLETION), 0);
  ASSERT_EQ(fi_ep_alias(sender, &again, FI_TRANSMIT), 0);
  ASSERT_EQ(fi_ep_alias(scene.b().ep(), &receiver, FI_RECV), 0);
  scene.out.fill_pattern(2);
  DeferredMessage receive(receiver, FI_OP_TRECV, scene.in, 8, FI_ADDR_UNSPEC, 5, FI_COMPLETION, &scene.contexts[0]);
  DeferredMessage quiet(sender, FI_OP_SEND, scene.out, 8, scene.a().peer);
  DeferredMessage send(again, FI_OP_TSEND, scene.out, 8, scene.a().peer, 5, FI_COMPLETION, &scene.contexts[1]);
  for (DeferredMessage* work : {&receive, &quiet, &send})
    ASSERT_EQ(work->queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
  for (fid_ep* alias : {sender, receiver, again}) ASSERT_EQ(fi_close(&alias->fid), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  const Completion sent = scene.a().tx().wait();
  ASSERT_TRUE(sent.ok()) << sent;
  EXPECT_EQ(sent.context(), &scene.contexts[1]) << "the flags are the work's, not the alias's";
  EXPECT_EQ(scene.b().rx().wait().context(), &scene.contexts[0]);
  EXPECT_TRUE(scene.in.holds_pattern(2, 8));
  EXPECT_TRUE(reaches(scene.done.get(), 3));
}

TEST_P(DeferredWork, ReceivesWaitToo) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  DeferredMessage first(scene.b().ep(), FI_OP_RECV, scene.in, 8, FI_ADDR_UNSPEC);
  DeferredMessage second(scene.b().ep(), FI_OP_TRECV, scene.in, 8, FI_ADDR_UNSPEC, 4);
  ASSERT_EQ(first.queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
  ASSERT_EQ(second.queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
  ASSERT_EQ(scene.a().send(scene.out, 8, &scene.contexts[0]), 0);
  ASSERT_EQ(scene.a().tsend(scene.out, 8, 4, &scene.contexts[1]), 0);
  EXPECT_TRUE(scene.b().rx().stays_silent());
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 0u);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(reaches(scene.done.get(), 2));
  EXPECT_TRUE(scene.b().rx().stays_silent());
}

TEST_P(DeferredWork, RemoteMemoryIsWrittenAndRead) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  Buffer remote(scene.fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
  Buffer local(scene.fabric, 64, 0, FI_READ | FI_WRITE), copy(scene.fabric, 64, 0, FI_READ | FI_WRITE);
  local.fill_pattern(8);
  const auto access = [&](Buffer& buffer, bool is_read, fid_cntr* trigger, fid_cntr* done) {
    auto request = std::make_unique<DeferredAccess>(scene.a(), is_read, buffer, remote.remote_address(), remote.key(),
                                                    nullptr, FI_DELIVERY_COMPLETE);
    EXPECT_EQ(request->queue(scene.fabric, trigger, 1, done), 0);
    return request;
  };
  const auto read_done = open_counter(scene.fabric);
  // The read waits for the write.
  const auto read = access(copy, true, scene.done.get(), read_done.get());
  const auto write = access(local, false, scene.trigger.get(), scene.done.get());
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(reaches(read_done.get(), 1));
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 1u);
  EXPECT_TRUE(remote.holds_pattern(8, 64));
  EXPECT_TRUE(copy.holds_pattern(8, 64));
  EXPECT_TRUE(scene.a().tx().stays_silent(milliseconds(1)));
}

TEST_P(DeferredWork, AtomicOperationsAreCarriedOut) {
  if (!Fabric::offers(target(), kWithAtomics)) GTEST_SKIP() << "no atomic operations with triggers";
  Scene scene(target(), kWithAtomics);
  Buffer remote(scene.fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(scene.fabric, 64, 0, FI_READ | FI_WRITE);
  auto* const value = reinterpret_cast<uint64_t*>(remote.data());
  auto* const words = reinterpret_cast<uint64_t*>(local.data());  // operand, swapped, compared, fetched, before
  *value = 100;
  words[0] = 5, words[1] = 42, words[2] = 110;
  const fi_rma_ioc range{remote.remote_address(), 1, remote.key()};
  const fi_ioc operand{&words[0], 1}, swapped{&words[1], 1}, compared{&words[2], 1};
  fi_ioc fetched{&words[3], 1}, before{&words[4], 1};
  void* desc = local.desc();
  const auto message = [&](const fi_ioc& with, fi_op op) {
    return fi_msg_atomic{&with, &desc, 1, scene.a().peer, &range, 1, FI_UINT64, op, nullptr, 0};
  };
  fi_op_atomic update{scene.a().ep(), message(operand, FI_SUM), 0};
  fi_op_fetch_atomic fetch{scene.a().ep(), message(operand, FI_SUM), {&fetched, &desc, 1}, 0};
  fi_op_compare_atomic compare{
      scene.a().ep(), message(swapped, FI_CSWAP), {&before, &desc, 1}, {&compared, &desc, 1}, 0};
  DeferredRequest requests[3];
  requests[0].work.op_type = FI_OP_ATOMIC;
  requests[0].work.op.atomic = &update;
  requests[1].work.op_type = FI_OP_FETCH_ATOMIC;
  requests[1].work.op.fetch_atomic = &fetch;
  requests[2].work.op_type = FI_OP_COMPARE_ATOMIC;
  requests[2].work.op.compare_atomic = &compare;
  for (uint64_t i = 0; i < 3; ++i)
    ASSERT_EQ(requests[i].queue(scene.fabric, scene.trigger.get(), i + 1, scene.done.get()), 0);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
    ASSERT_TRUE(reaches(scene.done.get(), i + 1));
  }
  EXPECT_EQ(words[3], 105u);
  EXPECT_EQ(words[4], 110u);
  EXPECT_EQ(*value, 42u);
  EXPECT_TRUE(scene.a().tx().stays_silent(milliseconds(1)));
}

TEST_P(DeferredWork, CountersAreChanged) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  const auto total = open_counter(scene.fabric);
  DeferredCount add(FI_OP_CNTR_ADD, total.get(), 3), set(FI_OP_CNTR_SET, total.get(), 100);
  DeferredCount after_add(FI_OP_CNTR_ADD, scene.done.get(), 1);
  ASSERT_EQ(after_add.queue(scene.fabric, total.get(), 3, nullptr), 0);
  ASSERT_EQ(set.queue(scene.fabric, scene.trigger.get(), 2, nullptr), 0);
  ASSERT_EQ(add.queue(scene.fabric, scene.trigger.get(), 1, nullptr), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(reaches(total.get(), 3));
  EXPECT_TRUE(reaches(scene.done.get(), 1));
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(reaches(total.get(), 100));
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 1u);
}

TEST_P(DeferredWork, FailuresCountTowardsTheThreshold) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  DeferredCount add(FI_OP_CNTR_ADD, scene.done.get(), 1);
  ASSERT_EQ(add.queue(scene.fabric, scene.trigger.get(), 2, nullptr), 0);
  ASSERT_EQ(fi_cntr_adderr(scene.trigger.get(), 1), 0);
  driver::poke();
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 0u);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(reaches(scene.done.get(), 1));
}

TEST_P(DeferredWork, ChainRunsWithoutTheApplication) {
  DEFERRED_WORK_ONLY();
  constexpr size_t kRounds = 20;
  Scene scene(target());
  // b answers each message; a sends the next one after the answer.
  const auto at_a = open_counter(scene.fabric), at_b = open_counter(scene.fabric);
  std::vector<std::unique_ptr<DeferredMessage>> work;
  const auto queue = [&](Node& node, fi_op_type type, fid_cntr* trigger, uint64_t threshold, fid_cntr* done) {
    work.push_back(std::make_unique<DeferredMessage>(node.ep(), type, scene.out, 64, node.peer));
    ASSERT_EQ(work.back()->queue(scene.fabric, trigger, threshold, done), 0);
  };
  for (size_t i = 0; i < kRounds; ++i) {
    queue(scene.a(), FI_OP_RECV, scene.trigger.get(), 0, at_a.get());
    queue(scene.b(), FI_OP_RECV, scene.trigger.get(), 0, at_b.get());
    queue(scene.b(), FI_OP_SEND, at_b.get(), i + 1, scene.done.get());
    queue(scene.a(), FI_OP_SEND, i == 0 ? scene.trigger.get() : at_a.get(), i == 0 ? 1 : i, scene.done.get());
  }
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 0u);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(reaches(scene.done.get(), 2 * kRounds));
  EXPECT_TRUE(reaches(at_a.get(), kRounds));
  EXPECT_TRUE(scene.silent());
}

TEST_P(DeferredWork, CancelledWorkNeverStarts) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  DeferredCount first(FI_OP_CNTR_ADD, scene.done.get(), 1), second(FI_OP_CNTR_ADD, scene.done.get(), 10);
  EXPECT_EQ(first.cancel(scene.fabric), -FI_ENOENT);
  ASSERT_EQ(first.queue(scene.fabric, scene.trigger.get(), 1, nullptr), 0);
  ASSERT_EQ(second.queue(scene.fabric, scene.trigger.get(), 1, nullptr), 0);
  ASSERT_EQ(first.cancel(scene.fabric), 0);
  EXPECT_EQ(first.cancel(scene.fabric), -FI_ENOENT);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(reaches(scene.done.get(), 10));
  EXPECT_EQ(second.cancel(scene.fabric), -FI_ENOENT);
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 10u);
}

TEST_P(DeferredWork, StructureMayBeQueuedAgainWhileItWaits) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  DeferredCount work(FI_OP_CNTR_ADD, scene.done.get(), 1);
  for (uint64_t threshold : {1, 2, 3}) ASSERT_EQ(work.queue(scene.fabric, scene.trigger.get(), threshold, nullptr), 0);
  ASSERT_EQ(work.cancel(scene.fabric), 0) << "the last one";
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 3), 0);
  EXPECT_TRUE(reaches(scene.done.get(), 2));
  driver::poke();
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 2u);
  EXPECT_EQ(work.cancel(scene.fabric), -FI_ENOENT);
}

TEST_P(DeferredWork, PostedReceiveCanStillBeCancelled) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  DeferredMessage receive(scene.b().ep(), FI_OP_RECV, scene.in, 8, FI_ADDR_UNSPEC, 0, 0, &scene.contexts[0]);
  ASSERT_EQ(receive.queue(scene.fabric, scene.trigger.get(), 0, scene.done.get()), 0);
  driver::poke();
  ASSERT_EQ(receive.cancel(scene.fabric), 0);
  EXPECT_TRUE(error_reaches(scene.done.get(), 1));
  const Completion cancelled = scene.b().rx().wait();
  EXPECT_EQ(cancelled.err(), FI_ECANCELED) << cancelled;
  EXPECT_EQ(cancelled.context(), &scene.contexts[0]);
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 0u);
  EXPECT_TRUE(scene.b().rx().stays_silent(milliseconds(1)));
}

TEST_P(DeferredWork, FlushingDropsAllWorkOrThatOfOneCounter) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  const auto other = open_counter(scene.fabric);
  DeferredCount first(FI_OP_CNTR_ADD, scene.done.get(), 1), second(FI_OP_CNTR_ADD, scene.done.get(), 10),
      third(FI_OP_CNTR_ADD, scene.done.get(), 100);
  ASSERT_EQ(first.queue(scene.fabric, scene.trigger.get(), 1, nullptr), 0);
  ASSERT_EQ(second.queue(scene.fabric, other.get(), 1, nullptr), 0);
  ASSERT_EQ(third.queue(scene.fabric, other.get(), 2, nullptr), 0);
  ASSERT_EQ(scene.control(FI_FLUSH_WORK, scene.trigger.get()), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  ASSERT_EQ(fi_cntr_add(other.get(), 1), 0);
  EXPECT_TRUE(reaches(scene.done.get(), 10));
  ASSERT_EQ(scene.control(FI_FLUSH_WORK, nullptr), 0);
  ASSERT_EQ(fi_cntr_add(other.get(), 1), 0);
  for (int i = 0; i < 20; ++i) driver::poke();
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 10u);
}

TEST_P(DeferredWork, FailureIsReportedOnce) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  const size_t most = scene.fabric.info()->tx_attr->inject_size;
  Buffer longer(scene.fabric, most + 1);
  DeferredMessage send(scene.a().ep(), FI_OP_SEND, longer, most + 1, scene.a().peer, 0, FI_INJECT, &scene.contexts[0]);
  ASSERT_EQ(send.queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(error_reaches(scene.done.get(), 1));
  const Completion failed = scene.a().tx().wait();
  EXPECT_EQ(failed.context(), &scene.contexts[0]);
  EXPECT_NE(failed.err(), 0);
  EXPECT_TRUE(scene.a().tx().stays_silent());
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 0u);
  EXPECT_EQ(fi_cntr_readerr(scene.done.get()), 1u);
}

TEST_P(DeferredWork, WorkWithoutRoomIsRetriedAndDelaysNoOtherEndpoint) {
  const HintsEditor short_queue = [](fi_info& hints) {
    with_triggers(hints);
    hints.tx_attr->size = 4;
  };
  NEEDS_TRIGGERS(short_queue);
  constexpr size_t kCount = 40, kLength = 200'000;
  Scene scene(target(), short_queue);
  Buffer out(scene.fabric, kLength), in(scene.fabric, kLength);
  const auto counted = open_counter(scene.fabric);
  std::vector<std::unique_ptr<DeferredMessage>> work;
  for (size_t i = 0; i < kCount; ++i) {
    work.push_back(
        std::make_unique<DeferredMessage>(scene.a().ep(), FI_OP_TSEND, out, kLength, scene.a().peer, uint64_t{i}));
    ASSERT_EQ(work.back()->queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
  }
  DeferredCount count(FI_OP_CNTR_ADD, counted.get(), 1);
  ASSERT_EQ(count.queue(scene.fabric, scene.trigger.get(), 1, nullptr), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(reaches(counted.get(), 1));
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(scene.b().trecv(in, kLength, i, 0, &scene.contexts[0]), 0);
    const Completion received = scene.b().rx().wait();
    ASSERT_TRUE(received.ok()) << received << " number " << i;
  }
  EXPECT_TRUE(reaches(scene.done.get(), kCount));
  EXPECT_EQ(fi_cntr_readerr(scene.done.get()), 0u);
}

TEST_P(DeferredWork, ClosingAnEndpointDropsItsWork) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  DeferredMessage send(scene.a().ep(), FI_OP_SEND, scene.out, 8, scene.a().peer);
  ASSERT_EQ(send.queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
  EXPECT_EQ(fi_close(&scene.trigger->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&scene.done->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&scene.fabric.domain()->fid), -FI_EBUSY);
  scene.a().close();
  EXPECT_EQ(send.cancel(scene.fabric), -FI_ENOENT);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(scene.a().tx().stays_silent());
  EXPECT_EQ(fi_cntr_readerr(scene.done.get()), 0u);
}

TEST_P(DeferredWork, MisuseIsRefused) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  Fabric elsewhere(target(), with_triggers);
  const auto foreign = open_counter(elsewhere);
  DeferredMessage send(scene.a().ep(), FI_OP_SEND, scene.out, 8, scene.a().peer);
  EXPECT_EQ(send.queue(scene.fabric, nullptr, 1, scene.done.get()), -FI_EINVAL);
  EXPECT_EQ(send.queue(scene.fabric, foreign.get(), 1, scene.done.get()), -FI_EINVAL);
  EXPECT_EQ(send.queue(scene.fabric, scene.trigger.get(), 1, foreign.get()), -FI_EINVAL);
  EXPECT_EQ(send.queue(elsewhere, foreign.get(), 1, nullptr), -FI_EDOMAIN);
  DeferredMessage nobody(nullptr, FI_OP_SEND, scene.out, 8, scene.a().peer);
  EXPECT_EQ(nobody.queue(scene.fabric, scene.trigger.get(), 1, nullptr), -FI_EINVAL);
  DeferredMessage several(scene.b().ep(), FI_OP_RECV, scene.in, 8, FI_ADDR_UNSPEC, 0, FI_MULTI_RECV);
  EXPECT_EQ(several.queue(scene.fabric, scene.trigger.get(), 1, nullptr), -FI_ENOSYS);
  DeferredCount count(FI_OP_CNTR_ADD, scene.done.get(), 1);
  EXPECT_EQ(count.queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), -FI_EINVAL);
  EXPECT_EQ(scene.control(FI_QUEUE_WORK, nullptr), -FI_EINVAL);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  EXPECT_TRUE(scene.silent());
}

TEST_P(DeferredWork, SleeperIsWokenByItsWork) {
  DEFERRED_WORK_ONLY();
  Scene scene(target());
  const auto total = open_counter(scene.fabric);
  DeferredCount first(FI_OP_CNTR_ADD, scene.done.get(), 1), second(FI_OP_CNTR_ADD, total.get(), 1);
  ASSERT_EQ(first.queue(scene.fabric, scene.trigger.get(), 1, nullptr), 0);
  ASSERT_EQ(second.queue(scene.fabric, scene.done.get(), 1, nullptr), 0);
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(50));
    fi_cntr_add(scene.trigger.get(), 1);
  });
  EXPECT_EQ(fi_cntr_wait(total.get(), 1, kWaitMs), 0);
  other.join();
}

TEST_P(DeferredWork, ServiceThreadNeedsNoCalls) {
  NEEDS_TRIGGERS(kAutomatic);
  Scene scene(target(), kAutomatic);
  ASSERT_EQ(scene.b().recv(scene.in, 8, &scene.contexts[0]), 0);
  DeferredMessage send(scene.a().ep(), FI_OP_SEND, scene.out, 8, scene.a().peer);
  DeferredCount count(FI_OP_CNTR_ADD, scene.done.get(), 1);
  const auto sent = open_counter(scene.fabric);
  ASSERT_EQ(send.queue(scene.fabric, scene.trigger.get(), 1, sent.get()), 0);
  ASSERT_EQ(count.queue(scene.fabric, sent.get(), 1, nullptr), 0);
  ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
  const auto deadline = after(kPatience);
  while (fi_cntr_read(scene.done.get()) == 0 && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(fi_cntr_read(scene.done.get()), 1u);
  EXPECT_TRUE(scene.b().rx().wait().ok());
}

TEST_P(DeferredWork, CountersCloseOnceTheirCountIsSeen) {
  NEEDS_TRIGGERS(kAutomatic);
  Scene scene(target(), kAutomatic);
  for (int round = 0; round < 300; ++round) {
    const auto trigger = open_counter(scene.fabric), total = open_counter(scene.fabric);
    DeferredCount count(FI_OP_CNTR_ADD, total.get(), 1);
    ASSERT_EQ(count.queue(scene.fabric, trigger.get(), 1, nullptr), 0);
    ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
    const auto deadline = after(kPatience);
    while (fi_cntr_read(total.get()) == 0 && Clock::now() < deadline) continue;
    ASSERT_EQ(fi_cntr_read(total.get()), 1u);
  }
}

TEST_P(DeferredWork, ThreadsMayQueueCountAndCancelConcurrently) {
  DEFERRED_WORK_ONLY();
  constexpr size_t kThreads = 4, kEach = 100;
  Scene scene(target());
  std::atomic<size_t> queued{0}, cancelled{0};
  std::vector<std::unique_ptr<DeferredCount>> work;
  for (size_t i = 0; i < kThreads * kEach; ++i)
    work.push_back(std::make_unique<DeferredCount>(FI_OP_CNTR_ADD, scene.done.get(), 1));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kEach; ++i) {
        DeferredCount& mine = *work[t * kEach + i];
        queued += mine.queue(scene.fabric, scene.trigger.get(), i, nullptr) == 0;
        if (i % 3 == 0) cancelled += mine.cancel(scene.fabric) == 0;
        fi_cntr_add(scene.trigger.get(), 1);
        fi_cntr_read(scene.done.get());
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(queued, kThreads * kEach);
  EXPECT_TRUE(reaches(scene.done.get(), queued - cancelled));
  for (int i = 0; i < 20; ++i) driver::poke();
  EXPECT_EQ(fi_cntr_read(scene.done.get()), queued - cancelled);
}

}  // namespace deferred_work
