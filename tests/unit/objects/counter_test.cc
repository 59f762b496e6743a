// SPDX-License-Identifier: BSD-2-Clause
// Counters through their ops tables; fi_cntr(3).
#include "objects/counter.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>
#include <vector>

#include "fake_engine.h"

namespace weft {
namespace {

using TestCounter = Counter<FakeEngine>;
using namespace std::chrono_literals;

struct CounterTest : testing::Test {
  void open(fi_wait_obj wait = FI_WAIT_FD) {
    fi_cntr_attr attr{};
    attr.wait_obj = wait;
    counter = TestCounter::open(parent.ref(), &attr, engine, true, this).value();
    cntr = &counter->abi;
  }
  void TearDown() override {
    if (cntr != nullptr) {
      EXPECT_EQ(fi_close(&cntr->fid), 0);
    }
    EXPECT_FALSE(parent.in_use());
  }
  FakeParent parent;
  FakeEngine engine;
  TestCounter* counter = nullptr;
  fid_cntr* cntr = nullptr;
};

TEST_F(CounterTest, CountsSuccessesAndErrorsSeparately) {
  open();
  counter->CounterCore::add(3);
  counter->add_error();
  counter->add_error();
  EXPECT_EQ(fi_cntr_read(cntr), 3u);
  EXPECT_EQ(fi_cntr_readerr(cntr), 2u);
  EXPECT_EQ(fi_cntr_add(cntr, 4), 0);
  EXPECT_EQ(fi_cntr_adderr(cntr, 5), 0);
  EXPECT_EQ(fi_cntr_read(cntr), 7u);
  EXPECT_EQ(fi_cntr_readerr(cntr), 7u);
  EXPECT_EQ(fi_cntr_set(cntr, 1), 0);
  EXPECT_EQ(fi_cntr_seterr(cntr, 0), 0);
  EXPECT_EQ(fi_cntr_read(cntr), 1u);
  EXPECT_EQ(fi_cntr_readerr(cntr), 0u);
}

// The application may sleep on it without fi_trywait.
TEST_F(CounterTest, EngineExpectsSleepersOnceTheDescriptorIsKnown) {
  open();
  EXPECT_FALSE(engine.expects_sleepers);
  int fd = -1;
  ASSERT_EQ(fi_control(&cntr->fid, FI_GETWAIT, &fd), 0);
  EXPECT_TRUE(engine.expects_sleepers);
}

TEST_F(CounterTest, ReadDrivesUnlessTheValueChanged) {
  open();
  engine.on_drive = [&] { counter->CounterCore::add(1); };
  EXPECT_EQ(fi_cntr_read(cntr), 1u) << "a completion made by driving is counted at once";
  EXPECT_EQ(engine.drives, 1);
  counter->CounterCore::add(1);
  EXPECT_EQ(fi_cntr_read(cntr), 2u);
  EXPECT_EQ(engine.drives, 1);
}

TEST_F(CounterTest, WaitReachesTheThreshold) {
  for (fi_wait_obj wait : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD, FI_WAIT_MUTEX_COND, FI_WAIT_YIELD}) {
    open(wait);
    std::jthread producer([&] {
      for (int i = 0; i < 5; ++i) {
        std::this_thread::sleep_for(1ms);
        counter->CounterCore::add(1);
      }
    });
    EXPECT_EQ(fi_cntr_wait(cntr, 5, 20000), 0);
    EXPECT_EQ(fi_cntr_wait(cntr, 5, 0), 0);
    producer.join();
    TearDown();
    cntr = nullptr;
  }
}

TEST_F(CounterTest, WaitEndsWithAnErrorOrTheTimeout) {
  open();
  const auto start = Clock::now();
  EXPECT_EQ(fi_cntr_wait(cntr, 1, 30), -FI_ETIMEDOUT);
  EXPECT_GE(Clock::now() - start, 30ms);
  std::jthread producer([&] {
    std::this_thread::sleep_for(5ms);
    counter->add_error();
  });
  EXPECT_EQ(fi_cntr_wait(cntr, 1, 20000), -FI_EAVAIL);
  producer.join();
  EXPECT_EQ(fi_cntr_wait(cntr, 1, 0), -FI_ETIMEDOUT) << "only an error that was not reported yet counts";
  counter->add_error();
  EXPECT_EQ(fi_cntr_wait(cntr, 1, 20000), -FI_EAVAIL) << "an error from before the call counts as well";
}

TEST_F(CounterTest, EveryWaiterWakesForItsOwnThreshold) {
  open();
  std::vector<std::jthread> waiters;
  std::atomic<int> failures{0};
  for (uint64_t threshold = 1; threshold <= 6; ++threshold)
    waiters.emplace_back([&, threshold] {
      for (uint64_t i = 0; i < 200; ++i)
        if (fi_cntr_wait(cntr, threshold + i * 6, 20000) != 0) ++failures;
    });
  std::jthread producer([&] {
    for (int i = 0; i < 1200; ++i) {
      counter->CounterCore::add(1);
      if (i % 7 == 0) std::this_thread::sleep_for(20us);
    }
  });
  waiters.clear();
  EXPECT_EQ(failures, 0);
}

// Each addition satisfies one waiter; the others wake up and sleep again: they must not consume the wake-up of the
// satisfied one. No further addition follows that would hide it.
TEST_F(CounterTest, UnsatisfiedWaitersDoNotConsumeTheWakeUp) {
  open();
  constexpr uint64_t kRounds = 2000;
  std::vector<std::jthread> greedy;
  for (int i = 0; i < 6; ++i) greedy.emplace_back([&] { EXPECT_EQ(fi_cntr_wait(cntr, kRounds, 60000), 0); });
  std::atomic<uint64_t> seen{0};
  std::jthread modest([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      EXPECT_EQ(fi_cntr_wait(cntr, i, 60000), 0);
      seen = i;
    }
  });
  uint64_t late = 0;
  for (uint64_t i = 1; i <= kRounds; ++i) {
    counter->CounterCore::add(1);
    const auto deadline = Clock::now() + 3s;
    while (seen < i && Clock::now() < deadline) std::this_thread::yield();
    if (seen < i) ++late;
  }
  EXPECT_EQ(late, 0u);
}

TEST_F(CounterTest, WithoutWaitObjectTheWaitPolls) {
  open(FI_WAIT_NONE);
  EXPECT_EQ(fi_cntr_wait(cntr, 1, 30), -FI_ETIMEDOUT);
}

TEST_F(CounterTest, TrywaitReportsChanges) {
  open();
  EXPECT_EQ(counter->trywait(), 0);
  counter->CounterCore::add(1);
  EXPECT_EQ(counter->trywait(), -FI_EAGAIN);
  EXPECT_EQ(fi_cntr_read(cntr), 1u);
  EXPECT_EQ(counter->trywait(), 0);
}

// Another thread may sleep on the descriptor.
TEST_F(CounterTest, TrywaitThatFindsAChangeLeavesTheDescriptorReadable) {
  open();
  int fd = -1;
  ASSERT_EQ(fi_control(&cntr->fid, FI_GETWAIT, &fd), 0);
  const auto readable = [&] {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, 0) == 1;
  };
  ASSERT_EQ(counter->trywait(), 0);
  EXPECT_FALSE(readable());
  counter->CounterCore::add(1);
  EXPECT_TRUE(readable());
  EXPECT_EQ(counter->trywait(), -FI_EAGAIN);
  EXPECT_TRUE(readable());
  EXPECT_EQ(fi_cntr_read(cntr), 1u);
  EXPECT_EQ(counter->trywait(), 0);
  EXPECT_FALSE(readable());
}

TEST_F(CounterTest, RefusesInvalidArgumentsAndClosesOnlyUnused) {
  fi_cntr_attr attr{};
  attr.flags = 1;
  EXPECT_EQ(TestCounter::open(parent.ref(), &attr, engine, true, nullptr).error().code(), -FI_EBADFLAGS);
  EXPECT_EQ(TestCounter::open(parent.ref(), nullptr, engine, true, nullptr).error().code(), -FI_EINVAL);
  attr = {
      .events = FI_CNTR_EVENTS_BYTES, .wait_obj = FI_WAIT_NONE, .wait_set = nullptr, .flags = 0, .xpu_ctx = nullptr};
  EXPECT_EQ(TestCounter::open(parent.ref(), &attr, engine, true, nullptr).error().code(), -FI_ENOSYS);
  open();
  const Ref<CounterCore> user(*counter);
  EXPECT_EQ(fi_close(&cntr->fid), -FI_EBUSY);
}

}  // namespace
}  // namespace weft
