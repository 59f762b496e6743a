// SPDX-License-Identifier: BSD-2-Clause
// Each row of the table of connection failures (docs/providers/verbs-errors.md) as an application sees it: the entry of
// the event queue and its sentence, or a retry until the deadline.
#include <gtest/gtest.h>

#include <cstdlib>

#include "conformance/fixture/parameter.h"
#include "fake_rdma.h"
#include "two_ends.h"
#include "unit/prov/verbs/cm_error_rows.h"

namespace faults_rows_test {

namespace {

using weft::verbs::kRows;
using weft::verbs::Row;

const rdma_cm_id* active_id() {
  const rdma_cm_id* found = nullptr;
  for (const fake::IdState& id : fake::ids())
    if (id.role == fake::Role::kActive) found = id.id;
  return found;
}

bool deliver(ends::TwoEnds& both, rdma_cm_event_type type) {
  return both.wait([&] {
    const auto held = fake::held();
    for (size_t i = 0; i < held.size(); ++i) {
      if (held[i].event != type) continue;
      fake::deliver(i);
      return true;
    }
    return false;
  });
}

// The phase in which the event arrives.
const char* phase_of(rdma_cm_event_type event) {
  if (event == RDMA_CM_EVENT_ADDR_ERROR) return "resolving the peer's address";
  if (event == RDMA_CM_EVENT_ROUTE_ERROR) return "resolving the route";
  return "waiting for the answer";
}

}  // namespace

class FaultsRows : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override { fake::reset(); }
};

TEST_P(FaultsRows, ReachesTheEventQueue) {
  const Row& row = GetParam();
  constexpr int kDeadlineMs = 300;  // several tries fit
  ends::TwoEnds both({.connect_timeout_ms = row.retryable ? kDeadlineMs : 20'000});
  ASSERT_TRUE(both.open());
  fake::hold();
  ASSERT_TRUE(both.connect());
  if (row.event != RDMA_CM_EVENT_ADDR_ERROR) {
    ASSERT_TRUE(deliver(both, RDMA_CM_EVENT_ADDR_RESOLVED));
    ASSERT_TRUE(row.event == RDMA_CM_EVENT_ROUTE_ERROR || deliver(both, RDMA_CM_EVENT_ROUTE_RESOLVED));
    for (int i = 0; i < 5; ++i) both.poll();
  }
  fake::inject_cm_event(active_id(), row.event, row.status);
  ASSERT_TRUE(both.wait([&] { return both.client.terminals > 0; }, 10'000));
  const std::string& said = both.client.sentence;
  const auto says = [&](const std::string& words) { return said.find(words) != std::string::npos; };
  if (row.retryable) {
    EXPECT_EQ(both.client.error, FI_ETIMEDOUT) << said;
    EXPECT_TRUE(says("no answer in time") && says(" tries, before: ")) << said;
  } else {
    EXPECT_EQ(both.client.error, row.error) << said;
    EXPECT_EQ(both.client.native_error, row.status != 0 ? -row.status : row.error) << said;
    EXPECT_TRUE(says(phase_of(row.event))) << said;
  }
  EXPECT_TRUE(says("127.0.0.1:") && says("device fake0") && says(" ms")) << said;
  both.close();
  EXPECT_EQ(both.verdict(), "");
}

INSTANTIATE_TEST_SUITE_P(, FaultsRows, testing::ValuesIn(kRows), [](const auto& param) {
  const Row& row = param.param;
  const std::string event = std::string(rdma_event_str(row.event)).substr(sizeof "RDMA_CM_EVENT_" - 1);
  return event + (row.status < 0 ? "_errno_" : "_reason_") + std::to_string(std::abs(row.status));
});

// Both ends learn of a port that goes down during the connection attempt, and remember it.
TEST(FaultsPorts, PortDownDuringConnectEndsTheConnectionAfterTheGrace) {
  const Parameter grace("FI_VERBS_PORT_DOWN_GRACE", "50");
  fake::reset();
  ends::TwoEnds both({.connect_timeout_ms = 20'000});
  ASSERT_TRUE(both.open());
  fake::hold();
  ASSERT_TRUE(both.connect());
  for (const auto event : {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_CONNECT_REQUEST})
    ASSERT_TRUE(deliver(both, event));
  ASSERT_TRUE(both.wait([&] { return both.server.started; }));
  fake::set_port_state("fake0", IBV_PORT_DOWN);
  for (int i = 0; i < 10; ++i) both.poll();
  fake::deliver_all();
  EXPECT_TRUE(both.wait([&] { return both.client.connected && both.server.connected; }));
  EXPECT_TRUE(both.wait([&] { return both.client.terminals && both.server.terminals; }, 10'000));
  both.close();
  EXPECT_EQ(both.verdict(), "");
  fake::set_port_state("fake0", IBV_PORT_ACTIVE);
  fake::reset();
}

// A connection knows its port: events of another port of the device do not affect it.
TEST(FaultsPorts, AnotherPortOfTheDeviceHasNoEffect) {
  const Parameter grace("FI_VERBS_PORT_DOWN_GRACE", "50");
  fake::reset();
  fake::retire_devices();
  fake::DeviceConfig config;
  config.addresses = {"127.0.0.2"};
  config.second = {"127.0.0.1"};
  fake::add_device(config);
  {
    ends::TwoEnds both({.connect_timeout_ms = 20'000});
    ASSERT_TRUE(both.open() && both.connect());
    ASSERT_TRUE(both.wait([&] { return both.client.connected && both.server.connected; }));
    fake::set_port_state("fake0", IBV_PORT_DOWN, 1);
    EXPECT_FALSE(both.wait([&] { return both.client.terminals || both.server.terminals; }, 300));
    fake::set_port_state("fake0", IBV_PORT_DOWN, 2);
    EXPECT_TRUE(both.wait([&] { return both.client.terminals && both.server.terminals; }, 10'000));
    both.close();
    EXPECT_EQ(both.verdict(), "");
  }
  fake::reset();
  fake::retire_devices();
}

}  // namespace faults_rows_test
