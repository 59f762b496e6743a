// SPDX-License-Identifier: BSD-2-Clause
// Properties of connections, rdma_connect(3) and rdma_accept(3): the defaults, the effect of parameters, the values
// that the two ends agree on, and the log line of a connection.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <memory>
#include <optional>

#include "conformance/fixture/parameter.h"
#include "fake_rdma.h"
#include "log_capture.h"
#include "two_ends.h"

namespace faults_properties_test {

namespace {

// One connection and its recorded properties.
struct Connection {
  LogCapture log;
  ends::TwoEnds both;
  fake::ConnectionState client, server;
  ibv_qp_attr client_qp{}, server_qp{};

  explicit Connection(const ends::Options& options = {}) : both(options) {
    EXPECT_TRUE(both.open() && both.connect());
    EXPECT_TRUE(both.wait([this] { return both.client.established() && both.server.established(); }));
    for (const fake::IdState& id : fake::ids()) {
      if (id.role == fake::Role::kActive) client = fake::connection(id.id);
      if (id.role == fake::Role::kPassive) server = fake::connection(id.id);
    }
    client_qp = attributes(client.mine.qp_num);
    server_qp = attributes(server.mine.qp_num);
  }
  ~Connection() {
    both.client.close_endpoint(both);
    both.expect_ended();
    both.close();
    EXPECT_EQ(both.verdict(), "");
  }
  static ibv_qp_attr attributes(uint32_t number) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    for (ibv_qp* qp : fake::queue_pairs())
      if (qp->qp_num == number) ibv_query_qp(qp, &attr, ~0, &init);
    return attr;
  }
};

}  // namespace

class FaultsProperties : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    fake::retire_devices();
    fake::DeviceConfig device;
    device.max_qp_rd_atom = 16;
    device.max_qp_init_rd_atom = 8;
    fake::add_device(device);
  }
  void TearDown() override {
    fake::reset();
    fake::retire_devices();
  }
};

TEST_F(FaultsProperties, DefaultsAreTheLimitsOfTheDevice) {
  Connection connection;
  EXPECT_EQ(connection.client.mine.responder_resources, 16);
  EXPECT_EQ(connection.client.mine.initiator_depth, 8);
  EXPECT_EQ(connection.client.mine.retry_count, 6);
  EXPECT_EQ(connection.client.mine.rnr_retry_count, 7);
  EXPECT_EQ(connection.client.mine.flow_control, 1);
  EXPECT_EQ(connection.client.mine.srq, 0);
  EXPECT_EQ(connection.client_qp.min_rnr_timer, 12);
  EXPECT_EQ(connection.client.type_of_service, 0);
  EXPECT_TRUE(
      connection.log.has("responder resources 8, initiator depth 8, retry count 6, RNR retry count 7, RNR timer "
                         "12, acknowledgement timeout "))
      << connection.log.text();
  EXPECT_TRUE(connection.log.has("flow control true, shared receives false, type of service -1"))
      << connection.log.text();
}

// One end serves as many reads as the other has outstanding.
TEST_F(FaultsProperties, AcceptingAdjustsToTheRequestAndTheDevice) {
  Connection connection;
  EXPECT_EQ(connection.server.mine.responder_resources, 8) << "at most what the requesting end has outstanding";
  EXPECT_EQ(connection.server.mine.initiator_depth, 8) << "no more than this device can have";
  EXPECT_EQ(connection.server_qp.max_dest_rd_atomic, 8);
  EXPECT_EQ(connection.server_qp.max_rd_atomic, 8);
  EXPECT_EQ(connection.client_qp.max_rd_atomic, 8);
  EXPECT_LE(connection.client_qp.max_rd_atomic, connection.server_qp.max_dest_rd_atomic);
}

TEST_F(FaultsProperties, ParametersSetEachOfThem) {
  const Parameter settings[] = {{"FI_VERBS_RESPONDER_RESOURCES", "4"},
                                {"FI_VERBS_INITIATOR_DEPTH", "3"},
                                {"FI_VERBS_RETRY_COUNT", "5"},
                                {"FI_VERBS_RNR_RETRY_COUNT", "2"},
                                {"FI_VERBS_MIN_RNR_TIMER", "9"},
                                {"FI_VERBS_FLOW_CONTROL", "no"},
                                {"FI_VERBS_TOS", "104"},
                                {"FI_VERBS_ACK_TIMEOUT", "17"}};
  Connection connection;
  EXPECT_EQ(connection.client.mine.responder_resources, 4);
  EXPECT_EQ(connection.client.mine.initiator_depth, 3);
  EXPECT_EQ(connection.client.mine.retry_count, 5);
  EXPECT_EQ(connection.client.mine.rnr_retry_count, 2);
  EXPECT_EQ(connection.client.mine.flow_control, 0);
  EXPECT_EQ(connection.client.type_of_service, 104);
  EXPECT_EQ(connection.client.ack_timeout, 17);
  EXPECT_EQ(connection.client_qp.min_rnr_timer, 9);
  EXPECT_EQ(connection.server_qp.min_rnr_timer, 9);
  EXPECT_EQ(connection.server.mine.responder_resources, 3) << "at most what the requesting end has outstanding";
  EXPECT_EQ(connection.server.mine.initiator_depth, 3);
  for (const char* said : {"initiator depth 3", "retry count 5", "RNR retry count 2", "RNR timer 9",
                           "acknowledgement timeout 17", "flow control false", "type of service 104"})
    EXPECT_TRUE(connection.log.has(said)) << said << " in " << connection.log.text();
}

TEST_F(FaultsProperties, SharedReceivesAreLogged) {
  Connection connection({.shared_receives = true});
  EXPECT_EQ(connection.client.mine.srq, 1);
  EXPECT_TRUE(connection.log.has("shared receives true")) << connection.log.text();
}

TEST_F(FaultsProperties, InvalidValuesAreLoggedAndTheDefaultApplies) {
  const Parameter settings[] = {{"FI_VERBS_RETRY_COUNT", "8"},
                                {"FI_VERBS_RNR_RETRY_COUNT", "often"},
                                {"FI_VERBS_MIN_RNR_TIMER", "32"},
                                {"FI_VERBS_TOS", "256"}};
  Connection connection;
  EXPECT_EQ(connection.client.mine.retry_count, 6);
  EXPECT_EQ(connection.client.mine.rnr_retry_count, 7);
  EXPECT_EQ(connection.client_qp.min_rnr_timer, 12);
  EXPECT_EQ(connection.client.type_of_service, 0);
  EXPECT_TRUE(connection.log.has("retry_count")) << connection.log.text();
  EXPECT_TRUE(connection.log.has("tos")) << connection.log.text();
}

TEST_F(FaultsProperties, TrafficClassOfTheEndpointIsTheTypeOfService) {
  constexpr uint8_t kExpedited = 46;
  Connection connection({.dscp = kExpedited});
  EXPECT_EQ(connection.client.type_of_service, kExpedited << 2);
  EXPECT_TRUE(connection.log.has("type of service 184")) << connection.log.text();
}

}  // namespace faults_properties_test
