// SPDX-License-Identifier: BSD-2-Clause
// The cache on a monitor that the test scripts: no registration of changed memory is found again.
#include "verbs/cache/registration_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "pinned_memory.h"

namespace weft::verbs {
namespace {

struct Report {
  MemoryRange range;
  MemoryChange change;
};

class ScriptedMonitor final : public MemoryMonitor {
 public:
  bool start(ChangeListener&) noexcept override { return true; }
  void stop() noexcept override {}
  bool watch(const MemoryRange& range) noexcept override {
    for (std::uintptr_t at = range.start; watches && at < range.end; at += kPage) watched.push_back(at);
    return watches;
  }
  void unwatch(const MemoryRange& range) noexcept override {
    for (std::uintptr_t at = range.start; at < range.end; at += kPage) std::erase(watched, at);
  }
  bool read(ChangeListener& listener) noexcept override {
    const std::vector<Report> all = std::exchange(reports, {});
    for (const Report& one : all) {
      if (one.change == MemoryChange::kUnmapped) unwatch(one.range);  // as the kernel does
      listener.on_change(one.range, one.change);
    }
    return !all.empty();
  }
  bool is_settled() noexcept override { return reports.empty(); }
  bool covers(const MemoryRange&) noexcept override { return covered; }
  bool is_usable() const noexcept override { return usable; }

  std::vector<Report> reports;
  std::vector<std::uintptr_t> watched;
  bool watches = true, covered = true, usable = true;
};

ScriptedMonitor* scripted = nullptr;

class Cache : public testing::Test {
 protected:
  void open(CacheLimits limits = {}) {
    auto monitor = std::make_unique<ScriptedMonitor>();
    scripted = monitor.get();
    cache_ = RegistrationCache::open(std::move(monitor), limits);
    ASSERT_NE(cache_, nullptr);
  }
  void TearDown() override {
    if (cache_ == nullptr) return;
    cache_->drop(memory_);
    EXPECT_EQ(memory_.live, 0);
    EXPECT_TRUE(scripted->watched.empty()) << scripted->watched.size() << " pages are still watched";
  }
  MemoryRange at(std::size_t first, std::size_t size) const {
    const auto base = reinterpret_cast<std::uintptr_t>(bytes_.data()) / kPage * kPage + kPage;
    return {base + first, base + first + size};
  }
  // Acquires and releases; the number of registrations made for it.
  int use(const MemoryRange& range, int access = IBV_ACCESS_LOCAL_WRITE) {
    const int before = memory_.made;
    if (CachedRegion* region = cache_->acquire(memory_, range, access)) cache_->release(*region);
    return memory_.made - before;
  }
  void await_end_of(int live) {
    for (int i = 0; i < 5000 && memory_.live != live; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(memory_.live, live);
  }

  std::vector<char> bytes_ = std::vector<char>(64 * kPage);
  PinnedMemory memory_;
  std::shared_ptr<RegistrationCache> cache_;
};

TEST_F(Cache, SecondUseOfTheSameMemoryMakesNoRegistration) {
  open();
  EXPECT_EQ(use(at(100, 200)), 1);
  EXPECT_EQ(use(at(100, 200)), 0);
  EXPECT_EQ(use(at(0, kPage)), 0) << "local use registers whole pages";
  EXPECT_EQ(use(at(0, kPage + 1)), 1);
  EXPECT_EQ(cache_->count(), 2U);
}

TEST_F(Cache, PeersGetNoMoreThanTheRange) {
  open();
  CachedRegion* region = cache_->acquire(memory_, at(100, 200), IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->mr->length, 200U);
  cache_->release(*region);
  EXPECT_EQ(use(at(100, 200), IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(use(at(100, 201), IBV_ACCESS_REMOTE_READ), 1);
  EXPECT_EQ(use(at(100, 200), IBV_ACCESS_LOCAL_WRITE), 1) << "rights are equal or it is another registration";
}

TEST_F(Cache, ChangedMemoryIsRegisteredAgainAndTheOldRegistrationEnds) {
  open();
  EXPECT_EQ(use(at(0, 4 * kPage)), 1);
  scripted->reports.push_back({at(3 * kPage, 8 * kPage), MemoryChange::kUnmapped});
  EXPECT_EQ(use(at(0, kPage)), 1) << "a report that was not read yet counts";
  await_end_of(1);
  EXPECT_EQ(cache_->count(), 1U);
}

TEST_F(Cache, ChangeBesideTheMemoryKeepsItsRegistration) {
  open();
  EXPECT_EQ(use(at(kPage, kPage)), 1);
  scripted->reports.push_back({at(0, kPage), MemoryChange::kUnmapped});
  scripted->reports.push_back({at(2 * kPage, kPage), MemoryChange::kDiscarded});
  EXPECT_EQ(use(at(kPage, kPage)), 0);
}

TEST_F(Cache, RegistrationInUseEndsWithItsLastUse) {
  open();
  CachedRegion* region = cache_->acquire(memory_, at(0, kPage), 0);
  ASSERT_NE(region, nullptr);
  scripted->reports.push_back({at(0, kPage), MemoryChange::kUnmapped});
  EXPECT_EQ(use(at(0, kPage), 0), 1);
  EXPECT_EQ(memory_.live, 2);
  cache_->release(*region);
  EXPECT_EQ(memory_.live, 1);
}

TEST_F(Cache, ChangeWhileARegistrationIsMadeMakesItTheOnlyUse) {
  open();
  memory_.on_add = [] {
    const auto page = scripted->watched.front();
    scripted->reports.push_back({{page, page + kPage}, MemoryChange::kUnmapped});
  };
  EXPECT_EQ(use(at(0, kPage)), 1);
  memory_.on_add = nullptr;
  EXPECT_EQ(cache_->count(), 0U);
  EXPECT_EQ(memory_.live, 0);
  EXPECT_EQ(use(at(0, kPage)), 1);
}

TEST_F(Cache, DiscardedMemoryIsNotCachedForASecond) {
  open();
  EXPECT_EQ(use(at(0, kPage)), 1);
  scripted->reports.push_back({at(0, kPage), MemoryChange::kDiscarded});
  EXPECT_EQ(cache_->acquire(memory_, at(0, kPage), IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(use(at(kPage, kPage)), 1) << "other memory is";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(use(at(0, kPage)), 1);
  EXPECT_EQ(use(at(0, kPage)), 0);
}

TEST_F(Cache, MoreDiscardsThanThereIsRoomForStopTheCaching) {
  open();
  for (int i = 0; i < 17; ++i) scripted->reports.push_back({at(0, kPage), MemoryChange::kDiscarded});
  EXPECT_EQ(use(at(8 * kPage, kPage)), 0);
  EXPECT_EQ(cache_->count(), 0U);
}

TEST_F(Cache, MemoryThatIsNotCoveredIsNotCached) {
  open();
  scripted->covered = false;
  EXPECT_EQ(cache_->acquire(memory_, at(0, kPage), 0), nullptr);
  scripted->covered = true;
  scripted->watches = false;
  EXPECT_EQ(cache_->acquire(memory_, at(0, kPage), 0), nullptr);
  EXPECT_EQ(memory_.made, 0);
  EXPECT_EQ(cache_->count(), 0U);
}

TEST_F(Cache, FailedRegistrationLeavesNothing) {
  open();
  memory_.fails = true;
  EXPECT_EQ(cache_->acquire(memory_, at(0, kPage), 0), nullptr);
  EXPECT_EQ(cache_->count(), 0U);
}

TEST_F(Cache, CountAndBytesAreLimitedByEndingTheLongestUnused) {
  open({.count = 2, .bytes = 4 * kPage});
  use(at(0, kPage));
  use(at(8 * kPage, kPage));
  use(at(0, kPage));
  use(at(16 * kPage, kPage));
  EXPECT_EQ(cache_->count(), 2U);
  EXPECT_EQ(use(at(0, kPage)), 0);
  EXPECT_EQ(use(at(16 * kPage, kPage)), 0);
  EXPECT_EQ(use(at(24 * kPage, 4 * kPage)), 1);
  EXPECT_EQ(cache_->count(), 1U);
  EXPECT_EQ(cache_->acquire(memory_, at(0, 5 * kPage), 0), nullptr) << "longer than the limit";
}

TEST_F(Cache, NothingIsCachedWhileAllAreInUseOrTheLimitIsNone) {
  open({.count = 1});
  CachedRegion* region = cache_->acquire(memory_, at(0, kPage), 0);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(cache_->acquire(memory_, at(8 * kPage, kPage), 0), nullptr);
  cache_->release(*region);
  EXPECT_EQ(use(at(8 * kPage, kPage), 0), 1);
  cache_->drop(memory_);
  open({.count = 0});
  EXPECT_EQ(cache_->acquire(memory_, at(0, kPage), 0), nullptr);
}

TEST_F(Cache, OverlappingRegistrationsKeepTheirPagesWatched) {
  open();
  CachedRegion* wide = cache_->acquire(memory_, at(0, 4 * kPage), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(wide, nullptr);
  use(at(2 * kPage, 4 * kPage), 0);
  EXPECT_TRUE(cache_->trim());
  EXPECT_EQ(std::set(scripted->watched.begin(), scripted->watched.end()).size(), 4U);
  cache_->release(*wide);
  EXPECT_TRUE(cache_->trim());
  EXPECT_FALSE(cache_->trim());
}

TEST_F(Cache, DomainsDoNotShareRegistrations) {
  open();
  PinnedMemory other;
  use(at(0, kPage));
  CachedRegion* region = cache_->acquire(other, at(0, kPage), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(other.made, 1);
  cache_->release(*region);
  cache_->drop(other);
  EXPECT_EQ(other.live, 0);
  EXPECT_EQ(use(at(0, kPage)), 0);
}

}  // namespace
}  // namespace weft::verbs
