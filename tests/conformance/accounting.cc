// SPDX-License-Identifier: BSD-2-Clause
// Every posted operation is accounted for: at the end of an endpoint, posted = completed + failed + canceled, each
// operation exactly once. fi_cm(3) and fi_endpoint(3) leave the choice; this library promises it.
#include <rdma/fi_rma.h>

#include <map>

#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/node.h"

namespace accounting {

CONFORMANCE_TOPIC(Accounting);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };
constexpr size_t kCount = 24;
constexpr size_t kChunk = 256 * 1024;

// A pair with many outstanding operations of every kind in both directions.
struct Busy {
  explicit Busy(const Target& target)
      : fabric(target, kRma),
        pair(fabric),
        bytes(fabric, kChunk, 'b', FI_SEND | FI_RECV | FI_READ | FI_WRITE),
        region(fabric, kChunk, 'r', FI_REMOTE_READ | FI_REMOTE_WRITE),
        contexts(2 * 4 * kCount) {
    size_t next = 0;
    for (int side : {0, 1}) {
      Node& node = pair.node(side);
      for (size_t i = 0; i < kCount; ++i) {
        post(side, fi_recv(node.ep(), bytes.data(), kChunk, bytes.desc(), FI_ADDR_UNSPEC, &contexts[next]), next);
        post(side, fi_send(node.ep(), bytes.data(), kChunk, bytes.desc(), node.peer, &contexts[next]), next);
        post(side,
             fi_write(node.ep(), bytes.data(), kChunk, bytes.desc(), node.peer, region.remote_address(), region.key(),
                      &contexts[next]),
             next);
        post(side,
             fi_read(node.ep(), bytes.data(), kChunk, bytes.desc(), node.peer, region.remote_address(), region.key(),
                     &contexts[next]),
             next);
      }
    }
  }

  void post(int side, ssize_t rc, size_t& next) {
    EXPECT_TRUE(rc == 0 || rc == -FI_EAGAIN) << rc;
    if (rc == 0) posted[side].insert({&contexts[next++], 0});
  }

  // Reads the current entries of one side's queues and counts them.
  void collect(int side) {
    for (CompletionQueue* cq : {&pair.node(side).tx(), &pair.node(side).rx()}) {
      for (;;) {
        const Completion completion = cq->read();
        if (completion.rc == -FI_EAGAIN) break;
        const auto found = posted[side].find(completion.context());
        ASSERT_NE(found, posted[side].end()) << "a completion for something that was not posted: " << completion;
        ASSERT_EQ(++found->second, 1) << "completed twice: " << completion;
      }
    }
  }
  void expect_all_accounted(int side) {
    collect(side);
    size_t missing = 0;
    for (const auto& [context, count] : posted[side]) missing += count == 0;
    EXPECT_EQ(missing, 0u) << "of " << posted[side].size() << " operations of side " << side;
  }

  Fabric fabric;
  Pair pair;
  Buffer bytes, region;
  std::vector<Context> contexts;
  std::map<void*, int> posted[2];
};

}  // namespace

#define BUSY_SCENE()     \
  CONNECTED_ONLY();      \
  NEEDS(kRma, "FI_RMA"); \
  Busy scene(target())

TEST_P(Accounting, EverythingCompletesWithoutDisturbance) {
  BUSY_SCENE();
  const auto deadline = after(kPatience);
  size_t open = 1;
  while (open > 0 && Clock::now() < deadline) {
    open = 0;
    for (int side : {0, 1}) {
      scene.collect(side);
      if (HasFatalFailure()) return;
      for (const auto& [context, count] : scene.posted[side]) open += count == 0;
    }
  }
  EXPECT_EQ(open, 0u);
}

TEST_P(Accounting, ShutdownAccountsForEverythingLocallyBeforeItReturns) {
  BUSY_SCENE();
  for (int i = 0; i < 20; ++i) driver::poke();
  ASSERT_EQ(fi_shutdown(scene.pair.a().ep(), 0), 0);
  scene.expect_all_accounted(0);
}

TEST_P(Accounting, ShutdownEventOfThePeerIsItsLast) {
  BUSY_SCENE();
  for (int i = 0; i < 20; ++i) driver::poke();
  ASSERT_EQ(fi_shutdown(scene.pair.a().ep(), 0), 0);
  scene.pair.b().eq().expect(FI_SHUTDOWN, scene.pair.b().fid());
  scene.expect_all_accounted(1);
  EXPECT_TRUE(scene.pair.b().eq().stays_silent(milliseconds(50)));
  scene.expect_all_accounted(1);
}

TEST_P(Accounting, CloseAccountsForEverything) {
  BUSY_SCENE();
  for (int i = 0; i < 20; ++i) driver::poke();
  scene.pair.a().close();
  scene.expect_all_accounted(0);
  scene.pair.b().eq().expect(FI_SHUTDOWN, scene.pair.b().fid());
  scene.expect_all_accounted(1);
}

TEST_P(Accounting, CompletedOperationsAreNotReportedAsCanceled) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  Pair pair(fabric, {}, counting(counter.get(), FI_RECV));
  Buffer buffer(fabric, 64);
  Context received[4], sent;
  for (Context& context : received) ASSERT_EQ(pair.b().recv(buffer, 64, &context), 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.a().send(buffer, 8, &sent), 0);
    ASSERT_TRUE(pair.a().tx().wait().ok());
  }
  ASSERT_TRUE(reaches(counter.get(), 2)) << "both have arrived, none was read";
  pair.b().close();
  for (int i = 0; i < 4; ++i) {
    const Completion completion = pair.b().rx().read();
    EXPECT_EQ(completion.context(), &received[i]);
    EXPECT_EQ(completion.ok(), i < 2) << completion;
  }
}

}  // namespace accounting
