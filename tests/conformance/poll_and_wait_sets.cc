// SPDX-License-Identifier: BSD-2-Clause
// Poll sets and wait sets, which release 2.x deprecates and 1.x programs use; fi_poll(3).
#include <poll.h>

#include <set>
#include <thread>

#include "fixture/driver.h"
#include "fixture/node.h"
#include "fixture/signals.h"

namespace poll_and_wait_sets {

CONFORMANCE_TOPIC(PollAndWaitSets);

namespace {

Handle<fid_poll> open_poll(const Fabric& fabric) {
  fi_poll_attr attr{};
  return opened<fid_poll>("fi_poll_open", [&](fid_poll** p) { return fi_poll_open(fabric.domain(), &attr, p); });
}

Handle<fid_cntr> open_counter(const Fabric& fabric, void* context) {
  fi_cntr_attr attr{};
  return opened<fid_cntr>("fi_cntr_open",
                          [&](fid_cntr** c) { return fi_cntr_open(fabric.domain(), &attr, c, context); });
}

Handle<fid_wait> open_wait(const Fabric& fabric, fi_wait_obj wait_obj) {
  fi_wait_attr attr{};
  attr.wait_obj = wait_obj;
  return opened<fid_wait>("fi_wait_open", [&](fid_wait** w) { return fi_wait_open(fabric.fabric(), &attr, w); });
}

template <class Fid, class Attr, class Open>
Handle<Fid> open_member(const Fabric& fabric, fid_wait& set, Open open) {
  Attr attr{};
  attr.wait_obj = FI_WAIT_SET;
  attr.wait_set = &set;
  return opened<Fid>("open", [&](Fid** f) { return open(fabric.domain(), &attr, f, nullptr); });
}

// Polls until an entry is reported; returns the contexts.
std::set<void*> polled(fid_poll* set, milliseconds patience) {
  const auto deadline = after(patience);
  void* contexts[8];
  int rc;
  while ((rc = fi_poll(set, contexts, 8)) == 0 && Clock::now() < deadline) driver::poke_and_rest();
  EXPECT_GE(rc, 0);
  return std::set<void*>(contexts, contexts + std::max(rc, 0));
}

}  // namespace

TEST_P(PollAndWaitSets, PollReportsTheContextOfAQueueWithCompletions) {
  Fabric fabric(target());
  const auto set = open_poll(fabric);
  Pair pair(fabric);
  int name = 0;
  pair.b().rx().fid()->context = &name;
  ASSERT_EQ(fi_poll_add(set.get(), pair.b().rx().fid(), 0), 0);
  ASSERT_EQ(fi_poll_add(set.get(), pair.a().rx().fid(), 0), 0);
  EXPECT_TRUE(polled(set.get(), milliseconds(20)).empty());
  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
  EXPECT_EQ(polled(set.get(), kPatience), std::set<void*>{&name});
  EXPECT_EQ(pair.b().rx().read().context(), &received);
  ASSERT_EQ(fi_poll_del(set.get(), pair.b().rx().fid(), 0), 0);
  ASSERT_EQ(fi_poll_del(set.get(), pair.a().rx().fid(), 0), 0);
}

TEST_P(PollAndWaitSets, PollReportsAChangedCounterOnce) {
  Fabric fabric(target());
  const auto set = open_poll(fabric);
  int name = 0;
  const auto counter = open_counter(fabric, &name);
  NodeOptions counting;
  counting.configure = [&](fid_ep* ep) { ASSERT_EQ(fi_ep_bind(ep, &counter->fid, FI_RECV), 0); };
  Pair pair(fabric, {}, counting);
  ASSERT_EQ(fi_poll_add(set.get(), &counter->fid, 0), 0);
  EXPECT_TRUE(polled(set.get(), milliseconds(20)).empty());
  for (int i = 0; i < 2; ++i) {
    expect_round_trip(pair.a(), pair.b());
    EXPECT_EQ(polled(set.get(), kPatience), std::set<void*>{&name});
    EXPECT_TRUE(polled(set.get(), milliseconds(20)).empty()) << "unchanged since the last fi_poll";
  }
  ASSERT_EQ(fi_poll_del(set.get(), &counter->fid, 0), 0);
}

TEST_P(PollAndWaitSets, RemovedQueueIsNoLongerPolled) {
  Fabric fabric(target());
  const auto set = open_poll(fabric);
  Pair pair(fabric);
  ASSERT_EQ(fi_poll_add(set.get(), pair.b().rx().fid(), 0), 0);
  ASSERT_EQ(fi_poll_del(set.get(), pair.b().rx().fid(), 0), 0);
  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
  EXPECT_TRUE(polled(set.get(), milliseconds(50)).empty());
}

TEST_P(PollAndWaitSets, FilledPollSetIsBusy) {
  Fabric fabric(target());
  const auto set = open_poll(fabric);
  CompletionQueue cq(fabric);
  ASSERT_EQ(fi_poll_add(set.get(), cq.fid(), 0), 0);
  EXPECT_EQ(fi_close(&set->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(cq.fid()), -FI_EBUSY);
  ASSERT_EQ(fi_poll_del(set.get(), cq.fid(), 0), 0);
}

// "... if the counter's success value or error value have changed since the last time fi_poll, fi_cntr_set, or
// fi_cntr_add were called."
TEST_P(PollAndWaitSets, ErrorsThatTheApplicationCountsAreReported) {
  Fabric fabric(target());
  const auto set = open_poll(fabric);
  int name = 0;
  const auto counter = open_counter(fabric, &name);
  ASSERT_EQ(fi_poll_add(set.get(), &counter->fid, 0), 0);
  for (auto* change : {&fi_cntr_adderr, &fi_cntr_seterr}) {
    ASSERT_EQ(fi_cntr_add(counter.get(), 3), 0);
    EXPECT_EQ(polled(set.get(), milliseconds(0)), std::set<void*>()) << "fi_cntr_add is no news to its caller";
    ASSERT_EQ(change(counter.get(), 2), 0);
    EXPECT_EQ(polled(set.get(), kPatience), std::set<void*>{&name});
    EXPECT_EQ(polled(set.get(), milliseconds(0)), std::set<void*>()) << "reported once";
  }
  ASSERT_EQ(fi_poll_del(set.get(), &counter->fid, 0), 0);
}

TEST_P(PollAndWaitSets, WaitTimesOutOnAnAbsoluteDeadline) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND}) {
    const auto set = open_wait(fabric, wait_obj);
    const auto start = Clock::now();
    EXPECT_EQ(fi_wait(set.get(), 100), -FI_ETIMEDOUT) << "wait object " << wait_obj;
    EXPECT_GE(elapsed_ms(start), 99);
    EXPECT_LE(elapsed_ms(start), kPromptMs);
  }
}

TEST_P(PollAndWaitSets, ASignalEndsAnEndlessWait) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    const auto set = open_wait(fabric, wait_obj);
    const Signals signals;
    EXPECT_EQ(fi_wait(set.get(), -1), -FI_EINTR) << "wait object " << wait_obj;
  }
}

TEST_P(PollAndWaitSets, WaitIsSatisfiedByAnyMember) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND}) {
    const auto set = open_wait(fabric, wait_obj);
    NodeOptions options;
    options.rx_cq.wait_obj = FI_WAIT_SET;
    options.rx_cq.wait_set = set.get();
    Pair pair(fabric, {}, options);
    Buffer in(fabric, 64), out(fabric, 64);
    Context received, sent;
    ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
    ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
    ASSERT_TRUE(pair.a().tx().wait().ok());
    Completion completion;
    for (const auto deadline = after(kPatience); completion.rc == -FI_EAGAIN && Clock::now() < deadline;) {
      const int rc = fi_wait(set.get(), kWaitMs);
      ASSERT_TRUE(rc == 0 || rc == -FI_ETIMEDOUT) << rc;
      completion = pair.b().rx().read();
    }
    EXPECT_EQ(completion.context(), &received) << "wait object " << wait_obj;
  }
}

// "When an event is added to the event counter, the corresponding wait set will be signaled": fi_cntr_add is one.
TEST_P(PollAndWaitSets, CounterThatTheApplicationChangesEndsTheWait) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    const auto set = open_wait(fabric, wait_obj);
    const auto counter = open_member<fid_cntr, fi_cntr_attr>(fabric, *set, fi_cntr_open);
    for (auto* change : {&fi_cntr_add, &fi_cntr_set, &fi_cntr_adderr, &fi_cntr_seterr}) {
      ASSERT_EQ(change(counter.get(), 1), 0);
      EXPECT_EQ(fi_wait(set.get(), kWaitMs), 0) << "changed before";
      fi_cntr_read(counter.get());
      fi_cntr_readerr(counter.get());
      EXPECT_EQ(fi_wait(set.get(), 20), -FI_ETIMEDOUT) << "the change has been read";
      std::thread changer([&] {
        std::this_thread::sleep_for(milliseconds(50));
        EXPECT_EQ(change(counter.get(), 2), 0);
      });
      EXPECT_EQ(fi_wait(set.get(), kWaitMs), 0) << "changed meanwhile";
      changer.join();
      fi_cntr_read(counter.get());
      fi_cntr_readerr(counter.get());
    }
    const auto polls = open_poll(fabric);
    ASSERT_EQ(fi_poll_add(polls.get(), &counter->fid, 0), 0);
    ASSERT_EQ(fi_cntr_add(counter.get(), 1), 0);
    EXPECT_EQ(fi_wait(set.get(), kWaitMs), 0);
    EXPECT_EQ(polled(polls.get(), milliseconds(0)), std::set<void*>());
    EXPECT_EQ(fi_wait(set.get(), 20), -FI_ETIMEDOUT) << "fi_poll has seen the change";
    ASSERT_EQ(fi_poll_del(polls.get(), &counter->fid, 0), 0);
  }
}

TEST_P(PollAndWaitSets, WaitSetOfADescriptorCanBePolled) {
  Fabric fabric(target());
  const auto set = open_wait(fabric, FI_WAIT_FD);
  fi_eq_attr attr{};
  attr.flags = FI_WRITE;
  attr.wait_obj = FI_WAIT_SET;
  attr.wait_set = set.get();
  EventQueue eq(fabric, attr);
  int fd = -1;
  ASSERT_EQ(fi_control(&set->fid, FI_GETWAIT, &fd), 0);
  fid_t fids[] = {&set->fid};
  ASSERT_EQ(fi_trywait(fabric.fabric(), fids, 1), 0);
  pollfd entry{fd, POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 20), 0);
  const fi_eq_entry event{};
  ASSERT_GT(fi_eq_write(eq.get(), 1, &event, sizeof event, 0), 0);
  EXPECT_EQ(poll(&entry, 1, kWaitMs), 1);
  EXPECT_EQ(eq.read().type, 1);
}

TEST_P(PollAndWaitSets, WaitSetInUseIsBusy) {
  Fabric fabric(target());
  const auto set = open_wait(fabric, FI_WAIT_FD);
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_SET;
  attr.wait_set = set.get();
  EventQueue eq(fabric, attr);
  EXPECT_EQ(fi_close(&set->fid), -FI_EBUSY);
}

TEST_P(PollAndWaitSets, MembersBlockAlone) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND, FI_WAIT_YIELD}) {
    const auto set = open_wait(fabric, wait_obj);
    const auto counter = open_member<fid_cntr, fi_cntr_attr>(fabric, *set, fi_cntr_open);
    NodeOptions options;
    options.rx_cq.wait_obj = FI_WAIT_SET;
    options.rx_cq.wait_set = set.get();
    options.configure = [&](fid_ep* ep) { require_ok(fi_ep_bind(ep, &counter->fid, FI_RECV), "fi_ep_bind"); };
    Pair pair(fabric, {}, options);
    fid_cq* const queue = pair.b().rx().get();
    Buffer in(fabric, 64), out(fabric, 64);
    Context received, sent;
    fi_cq_tagged_entry entry;
    const auto start = Clock::now();
    EXPECT_EQ(fi_cq_sread(queue, &entry, 1, nullptr, 100), -FI_EAGAIN);
    EXPECT_EQ(fi_cntr_wait(counter.get(), 1, 100), -FI_ETIMEDOUT);
    EXPECT_GE(elapsed_ms(start), 199);
    ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
    std::thread sender([&] {
      std::this_thread::sleep_for(milliseconds(50));
      EXPECT_EQ(pair.a().send(out, 8, &sent), 0);
      EXPECT_TRUE(pair.a().tx().wait().ok());
    });
    EXPECT_EQ(fi_cq_sread(queue, &entry, 1, nullptr, kWaitMs), 1) << "wait object " << wait_obj;
    EXPECT_EQ(entry.op_context, &received);
    EXPECT_EQ(fi_cntr_wait(counter.get(), 1, kWaitMs), 0) << "wait object " << wait_obj;
    sender.join();
  }
}

TEST_P(PollAndWaitSets, AnEventQueueOfAWaitSetBlocksAlone) {
  Fabric fabric(target());
  const auto set = open_wait(fabric, FI_WAIT_FD);
  fi_eq_attr attr{};
  attr.flags = FI_WRITE;
  attr.wait_obj = FI_WAIT_SET;
  attr.wait_set = set.get();
  EventQueue eq(fabric, attr);
  uint32_t type = 0;
  fi_eq_entry entry{};
  EXPECT_EQ(fi_eq_sread(eq.get(), &type, &entry, sizeof entry, 20, 0), -FI_EAGAIN);
  std::thread writer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_GT(fi_eq_write(eq.get(), 7, &entry, sizeof entry, 0), 0);
  });
  fi_eq_entry event;
  EXPECT_EQ(fi_eq_sread(eq.get(), &type, &event, sizeof event, kWaitMs, 0), static_cast<ssize_t>(sizeof event));
  EXPECT_EQ(type, 7u);
  writer.join();
}

TEST_P(PollAndWaitSets, MembersAndTheSetAreWaitedForAtOnce) {
  Fabric fabric(target());
  const auto set = open_wait(fabric, FI_WAIT_FD);
  const auto first = open_member<fid_cntr, fi_cntr_attr>(fabric, *set, fi_cntr_open);
  const auto second = open_member<fid_cntr, fi_cntr_attr>(fabric, *set, fi_cntr_open);
  for (uint64_t round = 1; round <= 20; ++round) {
    std::thread one([&] { EXPECT_EQ(fi_cntr_wait(first.get(), round, kWaitMs), 0); });
    std::thread two([&] { EXPECT_EQ(fi_cntr_wait(second.get(), round, kWaitMs), 0); });
    std::thread any([&] {
      const int rc = fi_wait(set.get(), 20);  // the others may have seen the changes before
      EXPECT_TRUE(rc == 0 || rc == -FI_ETIMEDOUT) << rc;
    });
    ASSERT_EQ(fi_cntr_add(second.get(), 1), 0);
    std::this_thread::sleep_for(milliseconds(5));
    ASSERT_EQ(fi_cntr_add(first.get(), 1), 0);
    for (std::thread* waiter : {&one, &two, &any}) waiter->join();
  }
}

TEST_P(PollAndWaitSets, SignalEndsTheWaitOfAMember) {
  Fabric fabric(target());
  const auto set = open_wait(fabric, FI_WAIT_FD);
  const auto queue = open_member<fid_cq, fi_cq_attr>(fabric, *set, fi_cq_open);
  std::thread caller([&] {
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(fi_cq_signal(queue.get()), 0);
  });
  fi_cq_tagged_entry entry;
  const auto start = Clock::now();
  EXPECT_EQ(fi_cq_sread(queue.get(), &entry, 1, nullptr, kWaitMs), -FI_EAGAIN);
  EXPECT_LT(elapsed_ms(start), kPromptMs);
  caller.join();
}

}  // namespace poll_and_wait_sets
