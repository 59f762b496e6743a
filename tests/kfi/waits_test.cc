// SPDX-License-Identifier: BSD-2-Clause
// Waits of every kind of queue, with each wait object and unit of time: they end at their time, at kfi_cq_signal, and
// not at a Unix signal; kfi_eq(3).
#include <sys/time.h>

#include <climits>
#include <csignal>
#include <cstring>
#include <functional>

#include "connected.h"

namespace {

// A pair with a wait set.
class Sets : public testing::Test {
 protected:
  Sets() { OK(kfi_wait_open(pair.both.fabric, nullptr, &set)); }
  ~Sets() override { EXPECT_EQ(kfi_close(&set->kfid), 0); }

  Connected pair;
  kfid_wait* set = nullptr;
};

TEST_F(Sets, QueuesHaveWaitsOfTheirOwn) {
  for (const uint64_t unit : {0ull, KFI_TIME_US}) {
    const int timeout = unit == KFI_TIME_US ? 20000 : 20;
    char room[64];
    uint32_t event;
    kfi_eq_attr eq_attr{};
    eq_attr.wait_obj = KFI_WAIT_SET;
    eq_attr.wait_set = set;
    eq_attr.flags = KFI_WRITE;
    kfid_eq* eq = nullptr;
    ASSERT_EQ(kfi_eq_open(pair.both.fabric, &eq_attr, &eq, nullptr, nullptr), 0);
    const auto wait = [&] { return kfi_eq_sread(eq, &event, room, sizeof room, timeout, unit); };
    EXPECT_GE(seconds_of([&] { EXPECT_EQ(wait(), -KFI_ETIMEDOUT); }), 0.019);
    const kfi_eq_entry entry{};
    EXPECT_GT(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), 0);
    EXPECT_EQ(wait(), static_cast<ssize_t>(sizeof entry));
    kfi_cq_attr cq_attr{};
    cq_attr.wait_obj = KFI_WAIT_SET;
    cq_attr.wait_set = set;
    cq_attr.flags = unit;
    kfid_cq* cq = nullptr;
    ASSERT_EQ(kfi_cq_open(pair.both.domain, &cq_attr, &cq, nullptr, nullptr), 0);
    EXPECT_GE(seconds_of([&] { EXPECT_EQ(kfi_cq_sread(cq, room, 1, nullptr, timeout), -KFI_ETIMEDOUT); }), 0.019);
    for (kfid* queue : {&cq->fid, &eq->fid}) EXPECT_EQ(kfi_close(queue), 0);
  }
}

// Before the wait, and during it.
TEST_F(Sets, SignalEndsEachKindOfWait) {
  for (const bool in_set : {false, true}) {
    for (const uint64_t unit : {0ull, KFI_TIME_US}) {
      kfi_cq_attr attr{};
      attr.wait_obj = in_set ? KFI_WAIT_SET : KFI_WAIT_NONE;
      attr.wait_set = in_set ? set : nullptr;
      attr.flags = unit;
      kfid_cq* cq = nullptr;
      ASSERT_EQ(kfi_cq_open(pair.both.domain, &attr, &cq, nullptr, nullptr), 0);
      kfi_cq_tagged_entry entry;
      for (const bool before : {true, false}) {
        std::thread later([&] {
          if (!before) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          EXPECT_EQ(kfi_cq_signal(cq), 0);
        });
        if (before) later.join();
        const auto wait = [&] { return kfi_cq_sread(cq, &entry, 1, nullptr, INT_MAX); };
        EXPECT_LT(seconds_of([&] { EXPECT_EQ(wait(), -KFI_EAGAIN); }), 60) << in_set << ' ' << unit;
        if (!before) later.join();
      }
      EXPECT_EQ(kfi_cq_sread(cq, &entry, 1, nullptr, 1), -KFI_ETIMEDOUT) << "a signal ends one wait";
      EXPECT_EQ(kfi_close(&cq->fid), 0);
    }
  }
}

// A Unix signal every 2 ms, while it lives.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, &before_);
    const itimerval often{{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~Interruptions() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_;
};

TEST_F(Sets, UnixSignalsEndNoWait) {
  kfid_cntr* counter = nullptr;
  ASSERT_EQ(kfi_cntr_open(pair.both.domain, nullptr, &counter, nullptr), 0);
  char room[64];
  kfi_addr_t source;
  uint32_t event;
  const std::function<ssize_t(int)> waits[] = {
      [&](int timeout) { return kfi_cq_sread(pair.cq(0), room, 1, nullptr, timeout); },
      [&](int timeout) { return kfi_cq_sreadfrom(pair.cq(0), room, 1, &source, nullptr, timeout); },
      [&](int timeout) { return kfi_eq_sread(pair.eq(0), &event, room, sizeof room, timeout, 0); },
      [&](int timeout) { return kfi_cntr_wait(counter, 1, timeout); },
      [&](int timeout) { return kfi_wait(set, timeout); },
  };
  {
    const Interruptions interruptions;
    for (const auto& wait : waits) {
      EXPECT_GE(seconds_of([&] { EXPECT_EQ(wait(50), -KFI_ETIMEDOUT) << &wait - waits; }), 0.049) << &wait - waits;
    }
  }
  EXPECT_EQ(kfi_close(&counter->fid), 0);
}

// The vector is a hint.
TEST(Affinity, EveryVectorIsTaken) {
  Connected pair;
  for (const int vector : {0, 1, -1, 100000}) {
    kfi_cq_attr cq_attr{};
    cq_attr.flags = KFI_AFFINITY;
    cq_attr.signaling_vector = vector;
    kfid_cq* cq = nullptr;
    ASSERT_EQ(kfi_cq_open(pair.both.domain, &cq_attr, &cq, nullptr, nullptr), 0) << vector;
    kfi_eq_attr eq_attr{};
    eq_attr.flags = KFI_AFFINITY | KFI_WRITE;
    eq_attr.signaling_vector = vector;
    kfid_eq* eq = nullptr;
    ASSERT_EQ(kfi_eq_open(pair.both.fabric, &eq_attr, &eq, nullptr, nullptr), 0) << vector;
    const kfi_eq_entry entry{};
    EXPECT_GT(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), 0);
    for (kfid* queue : {&cq->fid, &eq->fid}) EXPECT_EQ(kfi_close(queue), 0);
  }
}

}  // namespace
