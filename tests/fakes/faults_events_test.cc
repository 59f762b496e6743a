// SPDX-License-Identifier: BSD-2-Clause
// Every event of rdma_get_cm_event(3) in every state of a connection, at both ends and at the listener, expected in
// that state or not. The conversation advances one event at a time; the foreign event is injected between two of them.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>

#include "fake_rdma.h"
#include "two_ends.h"

namespace faults_events_test {

namespace {

constexpr int kLastEvent = RDMA_CM_EVENT_TIMEWAIT_EXIT;

// The statuses that a kernel reports with the event.
std::vector<int> statuses_of(int event) {
  switch (event) {
    case RDMA_CM_EVENT_REJECTED:
      return {4, 8, 28, -ECONNREFUSED};
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return {-ETIMEDOUT, -ENETUNREACH};
    default:
      return {0};
  }
}

const rdma_cm_id* id_of(fake::Role role) {
  const rdma_cm_id* found = nullptr;
  for (const fake::IdState& id : fake::ids())
    if (id.role == role) found = id.id;
  return found;
}

// Runs a conversation event by event, and injects before event number `at`. Returns the number of events.
int converse(const ends::Options& options, int at, const std::function<void()>& inject, std::string* verdict) {
  fake::reset();
  fake::set_timing({.request_timeout = 300, .disconnect_timeout = 100, .timewait = 1, .retries_exceeded = 30});
  ends::TwoEnds both(options);
  if (!both.open()) return -1;
  fake::hold();
  int count = 0;
  const auto step = [&] {
    if (count++ == at) inject();
    if (fake::held().empty()) return false;
    fake::deliver(0);
    for (int i = 0; i < 3; ++i) both.poll();
    return true;
  };
  if (both.connect()) {
    while (!(both.client.established() && both.server.established()) && step()) continue;
    if (both.client.established() && both.server.established()) both.transfer();
    if (both.client.established()) fi_shutdown(both.client.ep, 0);
    while (step()) continue;
  }
  fake::deliver_all();
  both.wait([&] { return both.client.over() || both.client.established(); }, 2000);  // an attempt may be repeated
  if (both.client.established()) fi_shutdown(both.client.ep, 0);
  both.wait([&] { return both.client.over(); }, 2000);
  if (!both.server.over() && !both.wait([&] { return both.server.over(); }, 150)) both.client.close_endpoint(both);
  both.expect_ended();
  both.close();
  *verdict = both.verdict();
  fake::reset();
  return count;
}

}  // namespace

class FaultsEvents : public testing::TestWithParam<fake::Role> {};

TEST_P(FaultsEvents, EachEventInEachState) {
  std::string verdict;
  const int steps = converse(
      {}, -1, [] {}, &verdict);
  ASSERT_GE(steps, 7);
  ASSERT_EQ(verdict, "");
  int runs = 0;
  for (int event = 0; event <= kLastEvent; ++event) {
    if (event == RDMA_CM_EVENT_CONNECT_REQUEST && GetParam() != fake::Role::kListener) continue;  // cannot happen
    for (const int status : statuses_of(event)) {
      for (int at = 0; at < steps; ++at) {
        const auto inject = [&] {
          const rdma_cm_id* id = id_of(GetParam());
          if (id) fake::inject_cm_event(id, static_cast<rdma_cm_event_type>(event), status, "\5where");
          runs += id != nullptr;
        };
        converse({}, at, inject, &verdict);
        EXPECT_EQ(verdict, "") << rdma_event_str(static_cast<rdma_cm_event_type>(event)) << " with status " << status
                               << " before event " << at;
      }
    }
  }
  std::printf("%d events injected in %d states\n", runs, steps);
}

INSTANTIATE_TEST_SUITE_P(, FaultsEvents,
                         testing::Values(fake::Role::kActive, fake::Role::kPassive, fake::Role::kListener),
                         [](const auto& param) {
                           return param.param == fake::Role::kActive    ? "active"
                                  : param.param == fake::Role::kPassive ? "passive"
                                                                        : "listener";
                         });

// Failures of devices and queue pairs, also at every step.
class FaultsDevice : public testing::Test {};

TEST_F(FaultsDevice, DeviceEventsInEachState) {
  const std::vector<std::pair<const char*, std::function<void()>>> kinds = {
      {"device fatal", [] { fake::raise_device("fake0", IBV_EVENT_DEVICE_FATAL); }},
      {"removal", [] { fake::remove_device("fake0"); }},
      {"port error", [] { fake::set_port_state("fake0", IBV_PORT_DOWN); }},
      {"qp fatal",
       [] {
         for (ibv_qp* qp : fake::queue_pairs()) fake::raise(qp, IBV_EVENT_QP_FATAL);
       }},
      {"one qp fatal",
       [] {
         if (!fake::queue_pairs().empty()) fake::raise(fake::queue_pairs().back(), IBV_EVENT_QP_FATAL);
       }},
      {"access error",
       [] {
         if (!fake::queue_pairs().empty()) fake::raise(fake::queue_pairs().front(), IBV_EVENT_QP_ACCESS_ERR);
       }},
      {"communication established",
       [] {
         for (ibv_qp* qp : fake::queue_pairs()) fake::raise(qp, IBV_EVENT_COMM_EST);
       }},
  };
  std::string verdict;
  const int steps = converse(
      {}, -1, [] {}, &verdict);
  for (const auto& [name, raise] : kinds) {
    for (int at = 0; at < steps; ++at) {
      converse({}, at, raise, &verdict);
      EXPECT_EQ(verdict, "") << name << " before event " << at;
      fake::restore_device("fake0");
      fake::set_port_state("fake0", IBV_PORT_ACTIVE);
    }
  }
}

// librdmacm has one context of a device for the whole process.
TEST_F(FaultsDevice, EventsOfQueuesThatTheProgramHasItselfAreNotOurs) {
  ends::TwoEnds both;
  ASSERT_TRUE(both.open() && both.connect());
  ASSERT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); }));
  ibv_context* const context = fake::queue_pairs().front()->context;
  const uint64_t theirs[8] = {};
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const cq = ibv_create_cq(context, 4, const_cast<uint64_t*>(theirs), nullptr, 0);
  ibv_qp_init_attr attr{};
  attr.qp_context = const_cast<uint64_t*>(theirs);
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  ibv_qp* const qp = ibv_create_qp(pd, &attr);
  ASSERT_NE(qp, nullptr);
  fake::raise(qp, IBV_EVENT_COMM_EST);
  fake::raise(cq, IBV_EVENT_CQ_ERR);
  EXPECT_FALSE(both.wait([&] { return both.client.terminals + both.server.terminals != 0; }, 100));
  EXPECT_EQ(ibv_destroy_qp(qp) + ibv_destroy_cq(cq) + ibv_dealloc_pd(pd), 0);
  both.client.close_endpoint(both);
  both.expect_ended();
  both.close();
  EXPECT_EQ(both.verdict(), "");
}

}  // namespace faults_events_test
