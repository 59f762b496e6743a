// SPDX-License-Identifier: BSD-2-Clause
// The cache of registrations beneath reliable datagrams: messages and accesses in a steady state register nothing, and
// memory that changed is registered again; fi_mr(3), decision 0018.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_rdma.h"
#include "log_capture.h"
#include "reliable_end.h"

namespace faults_cache_test {

namespace {

using ends::kLong;
using ends::ReliableEnd;

constexpr uintptr_t kPage = 4096;

uint64_t registrations() {
  return fake::calls()["ibv_reg_mr"];
}

class FaultsCache : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    setenv("FI_MR_CACHE_MONITOR", "imported", 1);
  }
  void TearDown() override {
    for (const char* name : {"MONITOR", "MAX_COUNT", "MAX_SIZE"})
      unsetenv((std::string("FI_MR_CACHE_") + name).c_str());
    fake::reset();
    EXPECT_EQ(fake::leaks(), "");
  }
  static uint64_t exchange(ReliableEnd& end, char letter) {
    const uint64_t before = registrations();
    std::memset(end.out().data(), letter, kLong);
    EXPECT_TRUE(end.receive(kLong, 1) && end.send(kLong, 1));
    EXPECT_EQ(end.received(), 0);
    EXPECT_EQ(end.sent(), 0);
    EXPECT_EQ(std::memcmp(end.in().data(), end.out().data(), kLong), 0);
    return registrations() - before;
  }
  // The registrations of a hundred messages, after the first two.
  static uint64_t steady(ReliableEnd& end) {
    exchange(end, 'a');
    exchange(end, 'b');
    uint64_t made = 0;
    for (int i = 0; i < 100; ++i) made += exchange(end, static_cast<char>('a' + i % 26));
    return made;
  }
  // A page within the buffer becomes another one, by mmap over it, or after munmap. Then another thread may get the
  // page for itself: the buffer is left to it, and a new one is tried.
  static void replace(ReliableEnd& end, std::vector<char>& buffer, bool unmaps) {
    static auto& lost = *new std::vector<std::vector<char>>;
    for (int tried = 0; tried < 100; ++tried) {
      const uintptr_t page = (reinterpret_cast<uintptr_t>(buffer.data()) / kPage + 8) * kPage;
      void* const at = reinterpret_cast<void*>(page);
      if (unmaps) munmap(at, kPage);
      const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (unmaps ? MAP_FIXED_NOREPLACE : MAP_FIXED);
      if (mmap(at, kPage, PROT_READ | PROT_WRITE, flags, -1, 0) == at) return;
      lost.push_back(std::exchange(buffer, std::vector<char>(kLong)));
      steady(end);
    }
    FAIL() << "no page was left alone";
  }
};

}  // namespace

TEST_F(FaultsCache, MessagesInASteadyStateRegisterNothing) {
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  EXPECT_EQ(steady(end), 0U);
  end.close();
}

TEST_F(FaultsCache, WithoutAMonitorEachMessageIsRegisteredAtBothEnds) {
  setenv("FI_MR_CACHE_MONITOR", "disabled", 1);
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  EXPECT_EQ(steady(end), 200U);
  end.close();
  unsetenv("FI_MR_CACHE_MONITOR");
  ReliableEnd standard;
  ASSERT_TRUE(standard.open());
  EXPECT_EQ(steady(standard), 200U);
  standard.close();
  setenv("FI_MR_CACHE_MONITOR", "imported", 1);
  setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
  ReliableEnd none;
  ASSERT_TRUE(none.open());
  EXPECT_EQ(steady(none), 200U);
  none.close();
}

TEST_F(FaultsCache, ReplacedMemoryIsRegisteredAgain) {
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  steady(end);
  replace(end, end.in(), true);
  EXPECT_EQ(exchange(end, 'a'), 1U) << "the receiver's memory was unmapped";
  replace(end, end.in(), false);
  EXPECT_EQ(exchange(end, 'b'), 1U) << "something was mapped over it";
  std::thread([&] { replace(end, end.out(), true); }).join();
  EXPECT_EQ(exchange(end, 'c'), 1U) << "another thread unmapped the sender's";
  ASSERT_EQ(madvise(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(end.out().data()) / kPage + 8) * kPage), kPage,
                    MADV_DONTNEED),
            0);
  EXPECT_EQ(exchange(end, 'd'), 1U) << "the sender's was discarded";
  EXPECT_EQ(exchange(end, 'e'), 1U) << "discarded memory is not cached for a second";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(exchange(end, 'f'), 1U);
  EXPECT_EQ(steady(end), 0U);
  end.close();
}

TEST_F(FaultsCache, MemoryBeyondTheLimitsIsRegisteredEachTime) {
  setenv("FI_MR_CACHE_MAX_SIZE", "1000000", 1);
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  EXPECT_EQ(steady(end), 200U);
  end.close();
}

TEST_F(FaultsCache, FullLimitOfLockedMemoryEndsUnusedRegistrations) {
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  steady(end);
  replace(end, end.in(), true);
  fake::fail("ibv_reg_mr", 1, ENOMEM);
  EXPECT_LE(exchange(end, 'a'), 3U);
  EXPECT_TRUE(fake::failure_happened());
  EXPECT_EQ(steady(end), 0U);
  end.close();
}

TEST_F(FaultsCache, MonitorOfLibfabricKeepsNoRegistrations) {
  setenv("FI_MR_CACHE_MONITOR", "memhooks", 1);
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  EXPECT_EQ(steady(end), 200U);  // one for each end's buffer
  end.close();
}

TEST_F(FaultsCache, DomainCanBeTakenOut) {
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  int value = -1;
  EXPECT_EQ(fi_get_val(end.domain(), FI_VAL_WEFT_MR_CACHE, &value), 0);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(steady(end), 0U);
  const uint64_t before = fake::calls()["ibv_dereg_mr"];
  value = 0;
  EXPECT_EQ(fi_set_val(end.domain(), FI_VAL_WEFT_MR_CACHE, &value), 0);
  EXPECT_EQ(fake::calls()["ibv_dereg_mr"] - before, 2U) << "the unused registrations end at once";
  EXPECT_EQ(steady(end), 200U);
  EXPECT_EQ(fi_get_val(end.domain(), FI_VAL_WEFT_MR_CACHE, &value), 0);
  EXPECT_EQ(value, 0);
  value = 1;
  EXPECT_EQ(fi_set_val(end.domain(), FI_VAL_WEFT_MR_CACHE, &value), 0);
  EXPECT_EQ(steady(end), 0U);
  value = 2;
  EXPECT_EQ(fi_set_val(end.domain(), FI_VAL_WEFT_MR_CACHE, &value), -FI_EINVAL);
  EXPECT_EQ(fi_set_val(end.domain(), FI_VAL_WEFT_MR_CACHE + 1, &value), -FI_ENOSYS);
  end.close();
}

TEST_F(FaultsCache, RegistrationsOfTheProgramAreReusedUnlessFlagged) {
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  const auto made = [&](uint64_t access, uint64_t flags) {
    const uint64_t before = registrations();
    for (int i = 0; i < 10; ++i) {
      fid_mr* region = nullptr;
      auto* domain = reinterpret_cast<fid_domain*>(end.domain());
      if (fi_mr_reg(domain, end.in().data(), kLong, access, 0, 0, flags, &region, nullptr) != 0) return UINT64_MAX;
      fi_close(&region->fid);
    }
    return registrations() - before;
  };
  EXPECT_EQ(made(FI_SEND | FI_RECV, 0), 1U);
  EXPECT_EQ(made(FI_SEND | FI_RECV, FI_MR_WEFT_UNCACHED), 10U);
  EXPECT_EQ(made(FI_SEND | FI_RECV, FI_MR_SINGLE_USE), 10U);
  EXPECT_EQ(made(FI_REMOTE_READ, 0), 10U) << "fi_close ends the rights of peers";
  end.close();
}

// ---- A monitor of the program ----

struct Monitor : fid_mem_monitor {
  Monitor() : fid_mem_monitor{} {
    static fi_ops_mem_monitor table{
        sizeof table,
        [](fid_mem_monitor* self) { return ++of(self).started, of(self).refuses ? -FI_ENOMEM : 0; },
        [](fid_mem_monitor* self) { ++of(self).stopped; },
        [](fid_mem_monitor* self, const void*, size_t) { return ++of(self).subscribed, 0; },
        [](fid_mem_monitor* self, const void*, size_t) { ++of(self).unsubscribed; },
        [](fid_mem_monitor* self, const void*, size_t) { return of(self).valid; }};
    fid.fclass = FI_CLASS_MEM_MONITOR;
    export_ops = &table;
  }
  static Monitor& of(fid_mem_monitor* self) { return *static_cast<Monitor*>(self); }
  void notify(const std::vector<char>& memory) { import_ops->notify(this, memory.data() + 8 * kPage, kPage); }
  std::atomic<int> started{0}, stopped{0}, subscribed{0}, unsubscribed{0};
  bool refuses = false, valid = true;
};

TEST_F(FaultsCache, ImportedMonitorReportsChanges) {
  Monitor monitor;
  ASSERT_EQ(fi_import(FI_VERSION(1, 17), "mr_cache", nullptr, 0, 0, &monitor.fid, nullptr), 0);
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  EXPECT_EQ(steady(end), 0U);
  EXPECT_EQ(monitor.started, 1);
  EXPECT_EQ(monitor.subscribed, 2) << "one for each end's memory";
  monitor.notify(end.out());
  EXPECT_EQ(exchange(end, 'a'), 1U);
  EXPECT_EQ(monitor.unsubscribed, 1);
  std::thread([&] { monitor.notify(end.in()); }).join();
  EXPECT_EQ(exchange(end, 'b'), 1U);
  for (int i = 0; i < 1000; ++i) monitor.notify(end.in());
  const uint64_t made = exchange(end, 'c');
  EXPECT_TRUE(made == 1 || made == 2) << made << ": too many notices at once stand for all memory";
  monitor.valid = false;
  EXPECT_EQ(exchange(end, 'd'), 2U);
  monitor.valid = true;
  EXPECT_EQ(steady(end), 0U);
  end.close();
  EXPECT_EQ(monitor.stopped, 1);
  EXPECT_EQ(monitor.subscribed, monitor.unsubscribed);
  EXPECT_EQ(fi_close(&monitor.fid), 0);
}

TEST_F(FaultsCache, ClosedMonitorIsNotCalledAgain) {
  Monitor monitor;
  ASSERT_EQ(fi_import(FI_VERSION(1, 17), "mr_cache", nullptr, 0, 0, &monitor.fid, nullptr), 0);
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  EXPECT_EQ(steady(end), 0U);
  EXPECT_EQ(fi_close(&monitor.fid), 0);
  EXPECT_EQ(monitor.stopped, 1);
  const int subscribed = monitor.subscribed;
  EXPECT_EQ(steady(end), 200U) << "nothing reports changes any more";
  end.close();
  EXPECT_EQ(monitor.subscribed, subscribed);
  EXPECT_EQ(monitor.stopped, 1);
}

TEST_F(FaultsCache, MonitorThatDoesNotStartLeavesTheKernels) {
  Monitor monitor;
  monitor.refuses = true;
  ASSERT_EQ(fi_import(FI_VERSION(1, 17), "mr_cache", nullptr, 0, 0, &monitor.fid, nullptr), 0);
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  EXPECT_EQ(steady(end), 0U);
  EXPECT_EQ(monitor.subscribed, 0);
  replace(end, end.in(), true);
  EXPECT_EQ(exchange(end, 'a'), 1U);
  end.close();
  EXPECT_EQ(fi_close(&monitor.fid), 0);
}

}  // namespace faults_cache_test
