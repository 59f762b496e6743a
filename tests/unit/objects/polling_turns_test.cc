// SPDX-License-Identifier: BSD-2-Clause
// Many threads, each asleep on a queue of its own, over one engine: whom an event wakes.
#include "objects/polling_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "fake_engine.h"
#include "objects/completion_queue.h"
#include "public_symbols.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

class PollingTurnsTest : public ::testing::Test {
 protected:
  using Queue = CompletionQueue<FakeEngine>;
  static constexpr size_t kQueues = 16;

  PollingTurnsTest() {
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_CONTEXT;
    attr.wait_obj = FI_WAIT_UNSPEC;
    for (Queue*& queue : queues_)
      queue = Queue::open(parent_.ref(), &attr, engine_, FI_VERSION(2, 6), true, nullptr, nullptr).value();
    engine_.on_drive = [this] {
      const std::lock_guard lock(mutex_);
      engine_.quiet();
      for (const size_t at : std::exchange(arrived_, {})) queues_[at]->write({.context = this, .flags = FI_RECV});
    };
  }
  ~PollingTurnsTest() override {
    for (Queue* queue : queues_) EXPECT_EQ(fi_close(&queue->abi.fid), 0);
  }
  void arrive(size_t at) {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(at);
    engine_.stir();
  }
  ssize_t wait_at(size_t at, int timeout_ms = 20'000) {
    fi_cq_entry entry{};
    return fi_cq_sread(&queues_[at]->abi, &entry, 1, nullptr, timeout_ms);
  }
  // All threads sleep.
  void settle() {
    for (int before = -1; before != engine_.prepares; std::this_thread::sleep_for(50ms)) before = engine_.prepares;
  }

  FakeParent parent_;
  FakeEngine engine_;
  Queue* queues_[kQueues]{};

 private:
  std::mutex mutex_;
  std::vector<size_t> arrived_;
};

TEST_F(PollingTurnsTest, AnEventWakesFewThreads) {
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kQueues; ++i) threads.emplace_back([this, i] { EXPECT_EQ(wait_at(i), 1); });
  for (size_t i = 0; i < kQueues; ++i) {
    settle();
    const int before = engine_.drives;
    arrive(i);
    threads[i].join();
    settle();
    EXPECT_LE(engine_.drives - before, 2 * static_cast<int>(PollingTurns::kMost) + 2) << "event " << i;
  }
}

TEST_F(PollingTurnsTest, AThreadThatLeavesPassesItsTurn) {
  std::vector<std::jthread> early, late;
  for (size_t i = 0; i < PollingTurns::kMost; ++i)
    early.emplace_back([this, i] { EXPECT_EQ(wait_at(i, 200), -FI_EAGAIN); });
  settle();
  for (size_t i = PollingTurns::kMost; i < kQueues; ++i) late.emplace_back([this, i] { EXPECT_EQ(wait_at(i), 1); });
  early.clear();  // their time is over
  const auto before = Clock::now();
  for (size_t i = PollingTurns::kMost; i < kQueues; ++i) arrive(i);
  late.clear();
  EXPECT_LT(Clock::now() - before, 10s);
}

// Threads come and go while events arrive for any of them.
TEST_F(PollingTurnsTest, NoEventIsLost) {
  constexpr int kEvents = 20'000;
  std::atomic<int> left = kEvents;
  std::atomic<int> late = 0;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kQueues; ++i)
    threads.emplace_back([&, i] {
      for (std::minstd_rand random(static_cast<unsigned>(i) + 1); left > 0;) {
        const bool brief = random() % 4 == 0;
        const auto before = Clock::now();
        if (wait_at(i, brief ? 1 : 5000) == 1) --left;
        if (Clock::now() - before > 4s && left > 0) ++late;
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      }
    });
  std::minstd_rand random(99);
  for (int i = 0; i < kEvents; ++i) {
    arrive(random() % kQueues);
    if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
  }
  for (const auto limit = Clock::now() + 20s; left > 0 && Clock::now() < limit;) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(left, 0);
  EXPECT_EQ(late, 0);
  left = 0;
  for (size_t i = 0; i < kQueues; ++i) fi_cq_signal(&queues_[i]->abi);
}

}  // namespace
}  // namespace weft
