// SPDX-License-Identifier: BSD-2-Clause
// Events that no call waits for, while no memory is left: interruptions of groups, failures of endpoints and listeners.
// They are reported once, the queue loses nothing and goes on working; fi_eq(3).
#include "datagram_world.h"
#include "failing_allocations.h"
#include "two_ends.h"

namespace memory_events {

namespace {

using weft::test::FailingAllocation;

// Reads an event queue without memory.
ssize_t read_without_memory(fid_eq* eq) {
  uint32_t event = 0;
  fi_eq_cm_entry entry{};
  const FailingAllocation none(1, FailingAllocation::kAll);
  return fi_eq_read(eq, &event, &entry, sizeof entry, 0);
}

// One error arrives; then nothing for as long as three attempts to join again take.
void expect_one_error(fid_eq* eq, int error) {
  ssize_t got = -FI_EAGAIN;
  EXPECT_TRUE(wait([&] { return (got = read_without_memory(eq)) != -FI_EAGAIN; }));
  ASSERT_EQ(got, -FI_EAVAIL);
  fi_eq_err_entry entry{};
  ASSERT_GT(fi_eq_readerr(eq, &entry, 0), 0);
  EXPECT_EQ(entry.err, error);
  const auto end = Clock::now() + std::chrono::milliseconds(400);
  while (Clock::now() < end) ASSERT_EQ(read_without_memory(eq), -FI_EAGAIN);
}

}  // namespace

class MemoryEvents : public testing::Test {
 protected:
  void SetUp() override {
    if (!FailingAllocation::supported()) GTEST_SKIP() << "a sanitizer has its own allocator";
    fake::reset();
  }
  void TearDown() override {
    fake::reset();
    EXPECT_EQ(fake::leaks(), "");
  }
};

TEST_F(MemoryEvents, InterruptedGroupIsJoinedAgainOnceThereIsMemory) {
  World world;
  ASSERT_TRUE(world.open());
  ASSERT_TRUE(joins(world.receiver));
  for (int i = 0; i < 3; ++i) {
    fake::inject_cm_event(fake::ids().back().id, RDMA_CM_EVENT_MULTICAST_ERROR, -ENETUNREACH);
    expect_one_error(world.receiver.eq, FI_ENETUNREACH);
    EXPECT_EQ(next_event(world.receiver).type, unsigned{FI_JOIN_COMPLETE});
  }
}

TEST_F(MemoryEvents, DatagramEndpointReportsOneOfManyFailures) {
  World world;
  ASSERT_TRUE(world.open());
  const rdma_cm_id* id = nullptr;
  for (const fake::IdState& each : fake::ids())
    if (each.role == fake::Role::kListener) id = each.id;
  for (int i = 0; i < 3; ++i) fake::inject_cm_event(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
  ASSERT_NO_FATAL_FAILURE(expect_one_error(world.receiver.eq, FI_EADDRNOTAVAIL));
  fake::inject_cm_event(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
  EXPECT_EQ(next_event(world.receiver).error, FI_EADDRNOTAVAIL) << "with memory again";
}

TEST_F(MemoryEvents, ListenerReportsOneOfManyFailures) {
  ends::TwoEnds both;
  ASSERT_TRUE(both.open());
  const rdma_cm_id* id = nullptr;
  for (const fake::IdState& each : fake::ids())
    if (each.role == fake::Role::kListener) id = each.id;
  for (int i = 0; i < 3; ++i) fake::inject_cm_event(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
  expect_one_error(both.listener_eq, FI_EADDRNOTAVAIL);
}

}  // namespace memory_events
