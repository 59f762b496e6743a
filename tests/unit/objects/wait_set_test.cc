// SPDX-License-Identifier: BSD-2-Clause
// Wait sets, poll sets and fi_trywait over queues of every kind; fi_poll(3).
#include "objects/wait_set.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <thread>

#include "fake_engine.h"
#include "objects/poll_set.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

struct WaitSetTest : testing::Test {
  void open(fi_wait_obj kind, fi_wait_obj member_kind = FI_WAIT_SET) {
    fi_wait_attr attr{};
    attr.wait_obj = kind;
    set = WaitSet::open(parent.ref(), &attr).value();
    open_queues(member_kind);
  }
  void open_queues(fi_wait_obj kind) {
    fid_wait* wait_set = set != nullptr ? &set->abi : nullptr;
    fi_cq_attr cq_attr{};
    cq_attr.wait_obj = kind;
    cq_attr.wait_set = wait_set;
    cq =
        CompletionQueue<FakeEngine>::open(parent.ref(), &cq_attr, engine, FI_VERSION(2, 6), true, nullptr, &cq).value();
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = kind;
    eq_attr.wait_set = wait_set;
    eq = EventQueue<FakeEngine>::open(parent.ref(), &eq_attr, FI_VERSION(2, 6), &eq).value();
    fi_cntr_attr cntr_attr{};
    cntr_attr.wait_obj = kind;
    cntr_attr.wait_set = wait_set;
    counter = Counter<FakeEngine>::open(parent.ref(), &cntr_attr, engine, true, &counter).value();
  }
  void TearDown() override {
    if (cq != nullptr) {
      EXPECT_EQ(fi_close(&cq->abi.fid), 0);
      EXPECT_EQ(fi_close(&eq->abi.fid), 0);
      EXPECT_EQ(fi_close(&counter->abi.fid), 0);
    }
    if (set != nullptr) {
      EXPECT_EQ(fi_close(&set->abi.fid), 0);
    }
    EXPECT_FALSE(parent.in_use());
  }
  void notify(int which) {
    const fi_eq_entry entry{};
    if (which == 0) cq->write({});
    if (which == 1) eq->post(EventQueueCore::reserve_result(), FI_NOTIFY, entry);
    if (which == 2) counter->CounterCore::add(1);
  }
  void consume(int which) {
    fi_eq_entry entry;
    uint32_t event;
    if (which == 0) {
      EXPECT_EQ(fi_cq_read(&cq->abi, &entry, 1), 1);
    }
    if (which == 1) {
      EXPECT_GT(fi_eq_read(&eq->abi, &event, &entry, sizeof entry, 0), 0);
    }
    if (which == 2) fi_cntr_read(&counter->abi);
  }

  FakeParent parent;
  FakeEngine engine;
  WaitSet* set = nullptr;
  CompletionQueue<FakeEngine>* cq = nullptr;
  EventQueue<FakeEngine>* eq = nullptr;
  Counter<FakeEngine>* counter = nullptr;
};

TEST_F(WaitSetTest, WakesForEachMember) {
  for (fi_wait_obj kind : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD, FI_WAIT_MUTEX_COND, FI_WAIT_YIELD}) {
    open(kind);
    EXPECT_EQ(fi_wait(&set->abi, 5), -FI_ETIMEDOUT);
    for (int which : {0, 1, 2}) {
      std::jthread producer([&] {
        std::this_thread::sleep_for(5ms);
        notify(which);
      });
      EXPECT_EQ(fi_wait(&set->abi, 20000), 0) << kind << " member " << which;
      producer.join();
      EXPECT_EQ(fi_wait(&set->abi, -1), 0) << "still there";
      consume(which);
    }
    TearDown();
    set = nullptr;
    cq = nullptr;
  }
}

TEST_F(WaitSetTest, MembersBlockAloneAndKeepTheSetOpen) {
  open(FI_WAIT_FD);
  fi_cq_entry entry;
  EXPECT_EQ(fi_cq_sread(&cq->abi, &entry, 1, nullptr, 5), -FI_EAGAIN);
  EXPECT_EQ(fi_cntr_wait(&counter->abi, 1, 5), -FI_ETIMEDOUT);
  EXPECT_EQ(fi_close(&set->abi.fid), -FI_EBUSY);
  fi_wait_obj kind;
  EXPECT_EQ(fi_control(&cq->abi.fid, FI_GETWAITOBJ, &kind), 0);
  EXPECT_EQ(kind, FI_WAIT_SET);
}

TEST_F(WaitSetTest, NativeDescriptorOfTheSet) {
  open(FI_WAIT_FD);
  int fd = -1;
  ASSERT_EQ(fi_control(&set->abi.fid, FI_GETWAIT, &fd), 0);
  ::fid* fids[] = {&set->abi.fid};
  pollfd p{fd, POLLIN, 0};
  for (int which : {0, 1, 2}) {
    ASSERT_EQ(trywait<FakeEngine>(fids, 1), 0);
    EXPECT_EQ(::poll(&p, 1, 0), 0);
    notify(which);
    EXPECT_EQ(::poll(&p, 1, 0), 1) << which;
    EXPECT_EQ(trywait<FakeEngine>(fids, 1), -FI_EAGAIN);
    consume(which);
  }
  ASSERT_EQ(trywait<FakeEngine>(fids, 1), 0);
  engine.stir();
  EXPECT_EQ(::poll(&p, 1, 0), 1);
}

// An engine with a descriptor that cannot be polled, and one that others poll too.
struct HalfBroken : FakeEngine {
  explicit HalfBroken(const FakeEngine& whole) : fds{-1, whole.wait_fd()} {}
  std::array<int, 2> wait_fds() const noexcept { return fds; }
  std::array<int, 2> fds;
};

TEST_F(WaitSetTest, FailedOpenLeavesOtherMembersAttached) {
  open(FI_WAIT_FD);
  int fd = -1;
  ASSERT_EQ(fi_control(&set->abi.fid, FI_GETWAIT, &fd), 0);
  HalfBroken broken(engine);
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_SET;
  attr.wait_set = &set->abi;
  for (int i = 0; i < 3; ++i)
    EXPECT_FALSE(
        CompletionQueue<HalfBroken>::open(parent.ref(), &attr, broken, FI_VERSION(2, 6), true, nullptr, nullptr));
  ::fid* fids[] = {&set->abi.fid};
  ASSERT_EQ(trywait<FakeEngine>(fids, 1), 0);
  engine.stir();
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 1) << "the engine's descriptor is still watched";
}

TEST_F(WaitSetTest, PollDescriptorsAreListedWithTheirChanges) {
  open(FI_WAIT_POLLFD);
  fi_wait_pollfd list{};
  EXPECT_EQ(fi_control(&set->abi.fid, FI_GETWAIT, &list), -FI_ETOOSMALL);
  EXPECT_EQ(list.nfds, 2u) << "the set's and the engine's, once";
  const uint64_t index = list.change_index;
  std::array<pollfd, 4> fds{};
  list = {0, fds.size(), fds.data()};
  ASSERT_EQ(fi_control(&set->abi.fid, FI_GETWAIT, &list), 0);
  EXPECT_EQ(list.nfds, 2u);
  EXPECT_EQ(list.change_index, index);
  EXPECT_EQ(fds[1].fd, engine.wait_fd());
  EXPECT_EQ(fds[0].events, POLLIN);
  notify(0);
  EXPECT_EQ(::poll(fds.data(), 2, 0), 1);
  FakeEngine more;
  ASSERT_TRUE(eq->attach(more).ok());
  list.nfds = fds.size();
  ASSERT_EQ(fi_control(&set->abi.fid, FI_GETWAIT, &list), 0);
  EXPECT_EQ(list.nfds, 3u);
  EXPECT_GT(list.change_index, index);
  eq->detach(more);
  consume(0);
}

// As applications do according to fi_poll(3): lock, trywait, pthread_cond_wait, with the library called under the
// mutex.
TEST_F(WaitSetTest, MutexAndConditionWakeANativeWaiter) {
  open_queues(FI_WAIT_MUTEX_COND);
  fi_mutex_cond pair{};
  ASSERT_EQ(fi_control(&cq->abi.fid, FI_GETWAIT, &pair), 0);
  std::jthread producer([&] {
    for (int i = 0; i < 200; ++i) {
      notify(0);
      std::this_thread::sleep_for(i % 3 * 50us);
    }
  });
  ::fid* fids[] = {&cq->abi.fid};
  fi_cq_entry entry;
  int timeouts = 0;
  pthread_mutex_lock(pair.mutex);
  for (int got = 0; got < 200;) {
    if (fi_cq_read(&cq->abi, &entry, 1) == 1) {
      ++got;
      continue;
    }
    if (trywait<FakeEngine>(fids, 1) != 0) continue;
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    if (pthread_cond_timedwait(pair.cond, pair.mutex, &until) == ETIMEDOUT) ++timeouts;
  }
  pthread_mutex_unlock(pair.mutex);
  EXPECT_EQ(timeouts, 0);
}

TEST_F(WaitSetTest, RefusesInvalidArguments) {
  fi_wait_attr attr{};
  attr.wait_obj = FI_WAIT_NONE;
  EXPECT_EQ(WaitSet::open(parent.ref(), &attr).error().code(), -FI_EINVAL);
  attr.wait_obj = FI_WAIT_SET;
  EXPECT_EQ(WaitSet::open(parent.ref(), &attr).error().code(), -FI_EINVAL);
  attr.flags = 1;
  EXPECT_EQ(WaitSet::open(parent.ref(), &attr).error().code(), -FI_EBADFLAGS);
  EXPECT_EQ(WaitSet::open(parent.ref(), nullptr).error().code(), -FI_EINVAL);
  ::fid foreign{};
  ::fid* fids[] = {&foreign, nullptr};
  EXPECT_EQ(trywait<FakeEngine>(fids, 1), -FI_EINVAL);
  EXPECT_EQ(trywait<FakeEngine>(fids + 1, 1), -FI_EINVAL);
  EXPECT_EQ(trywait<FakeEngine>(nullptr, 1), -FI_EINVAL);
  EXPECT_EQ(trywait<FakeEngine>(nullptr, 0), 0);
}

TEST_F(WaitSetTest, PollSetReturnsQueuesAndCountersWithChanges) {
  open_queues(FI_WAIT_NONE);
  auto* polls = PollSet<FakeEngine>::open(parent.ref(), nullptr).value();
  fid_poll* pollset = &polls->abi;
  EXPECT_EQ(fi_poll_add(pollset, &cq->abi.fid, 0), 0);
  EXPECT_EQ(fi_poll_add(pollset, &cq->abi.fid, 0), 0) << "adding twice is harmless";
  EXPECT_EQ(fi_poll_add(pollset, &counter->abi.fid, 0), 0);
  EXPECT_EQ(fi_poll_add(pollset, &eq->abi.fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_poll_add(pollset, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_poll_add(pollset, &cq->abi.fid, 1), -FI_EBADFLAGS);

  std::array<void*, 4> contexts{};
  EXPECT_EQ(fi_poll(pollset, contexts.data(), 4), 0);
  EXPECT_EQ(engine.drives, 1) << "one engine, however many members";
  notify(0);
  notify(2);
  EXPECT_EQ(fi_poll(pollset, contexts.data(), 4), 2);
  EXPECT_EQ(contexts[0], &cq);
  EXPECT_EQ(contexts[1], &counter);
  EXPECT_EQ(fi_poll(pollset, contexts.data(), 4), 1) << "a counter is returned once, a queue until it is read";
  EXPECT_EQ(fi_poll(pollset, contexts.data(), 0), 0);
  fi_cntr_add(&counter->abi, 1);
  EXPECT_EQ(fi_poll(pollset, contexts.data(), 1), 1);

  EXPECT_EQ(fi_close(&cq->abi.fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&pollset->fid), -FI_EBUSY);
  EXPECT_EQ(fi_poll_del(pollset, &cq->abi.fid, 0), 0);
  EXPECT_EQ(fi_poll_del(pollset, &cq->abi.fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_poll_del(pollset, &counter->abi.fid, 0), 0);
  EXPECT_EQ(fi_close(&pollset->fid), 0);
}

}  // namespace
}  // namespace weft
