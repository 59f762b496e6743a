// SPDX-License-Identifier: BSD-2-Clause
// Parts that are made at their first use.
#include "base/on_demand.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

namespace weft {
namespace {

struct Tallied {
  explicit Tallied(std::atomic<int>& of) : alive(of) { ++alive; }
  ~Tallied() { --alive; }
  std::atomic<int>& alive;
};

TEST(OnDemand, IsMadeOnceAndDestroyedWithItsOwner) {
  std::atomic<int> alive{0};
  {
    OnDemand<Tallied> part;
    EXPECT_EQ(part.get(), nullptr);
    Tallied& first = part.get_or([&] { return std::make_unique<Tallied>(alive); });
    EXPECT_EQ(part.get(), &first);
    EXPECT_EQ(&part.get_or([&] { return std::make_unique<Tallied>(alive); }), &first);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(OnDemand, ThreadsGetTheSamePart) {
  constexpr int kThreads = 4, kRounds = 200;
  std::atomic<int> alive{0};
  for (int round = 0; round < kRounds; ++round) {
    OnDemand<Tallied> part;
    std::barrier start(kThreads);
    std::vector<Tallied*> got(kThreads);
    std::vector<std::thread> threads;
    for (Tallied*& mine : got)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        mine = &part.get_or([&] { return std::make_unique<Tallied>(alive); });
      });
    for (std::thread& thread : threads) thread.join();
    for (const Tallied* each : got) ASSERT_EQ(each, part.get());
    ASSERT_EQ(alive, 1) << "the others were destroyed";
  }
}

TEST(OnDemand, FailureLeavesNothing) {
  OnDemand<int> part;
  const auto fail = []() -> std::unique_ptr<int> { throw std::bad_alloc(); };
  EXPECT_THROW(part.get_or(fail), std::bad_alloc);
  EXPECT_EQ(part.get(), nullptr);
  EXPECT_EQ(part.get_or([] { return std::make_unique<int>(3); }), 3);
}

}  // namespace
}  // namespace weft
