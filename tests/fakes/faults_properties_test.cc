// SPDX-License-Identifier: BSD-2-Clause
// Properties of connections, rdma_connect(3) and rdma_accept(3): the defaults, the effect of parameters, the values
// that the two ends agree on, and the log line of a connection.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "conformance/fixture/parameter.h"
#include "fake_rdma.h"
#include "log_capture.h"
#include "two_ends.h"
#include "without_devices.h"

namespace faults_properties_test {

namespace {

// One connection and its recorded properties.
struct Connection {
  LogCapture log;
  ends::TwoEnds both;
  fake::ConnectionState client, server;
  ibv_qp_attr client_qp{}, server_qp{};

  explicit Connection(const ends::Options& options = {},
                      const std::function<void(fid_pep*)>& before_listen_answers = {})
      : both(options) {
    EXPECT_TRUE(both.open());
    if (before_listen_answers) before_listen_answers(both.listener);
    EXPECT_TRUE(both.connect());
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

// The request of an end that chose the values below, by parameters or by options.
void expect_chosen_request(const fake::ConnectionState& client) {
  EXPECT_EQ(client.mine.responder_resources, 4);
  EXPECT_EQ(client.mine.initiator_depth, 3);
  EXPECT_EQ(client.mine.retry_count, 5);
  EXPECT_EQ(client.mine.rnr_retry_count, 2);
  EXPECT_EQ(client.mine.flow_control, 0);
  EXPECT_EQ(client.type_of_service, 104);
  EXPECT_EQ(client.ack_timeout, 17);
}

}  // namespace

class FaultsProperties : public WithoutDevices {
 protected:
  void SetUp() override {
    WithoutDevices::SetUp();
    fake::DeviceConfig device;
    device.max_qp_rd_atom = 16;
    device.max_qp_init_rd_atom = 8;
    fake::add_device(device);
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
  expect_chosen_request(connection.client);
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

// ---- Options of one endpoint ----

namespace {

using Values = std::vector<std::pair<int, int>>;  // option, value

void set_all(fid* object, const Values& values) {
  for (const auto& [option, value] : values)
    EXPECT_EQ(fi_setopt(object, FI_OPT_ENDPOINT, option, &value, sizeof value), 0) << std::hex << option;
}

int value_of(fid* object, int option) {
  int value = -1000;
  size_t size = sizeof value;
  EXPECT_EQ(fi_getopt(object, FI_OPT_ENDPOINT, option, &value, &size), 0) << std::hex << option;
  EXPECT_EQ(size, sizeof value);
  return value;
}

void expect_all(fid* object, const Values& values) {
  for (const auto& [option, value] : values) EXPECT_EQ(value_of(object, option), value) << std::hex << option;
}

const Values kChosen = {{FI_OPT_WEFT_RESPONDER_RESOURCES, 4}, {FI_OPT_WEFT_INITIATOR_DEPTH, 3},
                        {FI_OPT_WEFT_RETRY_COUNT, 5},         {FI_OPT_WEFT_RNR_RETRY_COUNT, 2},
                        {FI_OPT_WEFT_FLOW_CONTROL, 0},        {FI_OPT_WEFT_MIN_RNR_TIMER_US, 160},
                        {FI_OPT_WEFT_ACK_TIMEOUT_US, 536870}, {FI_OPT_WEFT_TYPE_OF_SERVICE, 104}};

}  // namespace

TEST_F(FaultsProperties, OptionsOfTheRequestingEndpointAreSentAndInForce) {
  Connection connection({.before_connect = [](fid_ep* ep) {
    set_all(&ep->fid, kChosen);
    expect_all(&ep->fid, kChosen);
  }});
  expect_chosen_request(connection.client);
  EXPECT_EQ(connection.client_qp.timeout, 17);
  EXPECT_EQ(connection.client_qp.min_rnr_timer, 8);
  EXPECT_EQ(connection.server_qp.min_rnr_timer, 12) << "the other end has the defaults";
  expect_all(&connection.both.client.ep->fid, kChosen);
}

TEST_F(FaultsProperties, AcceptedEndpointsInheritTheOptionsOfTheListener) {
  Connection connection({}, [](fid_pep* pep) {
    set_all(&pep->fid, kChosen);
    expect_all(&pep->fid, kChosen);
  });
  EXPECT_EQ(connection.server.mine.responder_resources, 4);
  EXPECT_EQ(connection.server.mine.initiator_depth, 3);
  EXPECT_EQ(connection.server.mine.rnr_retry_count, 2);
  EXPECT_EQ(connection.server.mine.flow_control, 0);
  EXPECT_EQ(connection.server_qp.min_rnr_timer, 8);
  EXPECT_EQ(connection.server_qp.timeout, 17);
  EXPECT_EQ(connection.client_qp.min_rnr_timer, 12);
  EXPECT_EQ(value_of(&connection.both.client.ep->fid, FI_OPT_WEFT_INITIATOR_DEPTH), 4) << "no more than is served";
  EXPECT_EQ(value_of(&connection.both.server.ep->fid, FI_OPT_WEFT_RETRY_COUNT), 6) << "the requesting end decides";
}

// One server treats two peers differently.
TEST_F(FaultsProperties, OptionsOfTheAcceptingEndpointPrecedeTheListeners) {
  Connection connection({.before_accept =
                             [](fid_ep* ep) {
                               set_all(&ep->fid, {{FI_OPT_WEFT_RESPONDER_RESOURCES, 2}});
                             }},
                        [](fid_pep* pep) { set_all(&pep->fid, kChosen); });
  EXPECT_EQ(connection.server.mine.responder_resources, 2);
  EXPECT_EQ(connection.server.mine.initiator_depth, 3);
}

TEST_F(FaultsProperties, AcceptingEndpointSeesTheRequest) {
  fi_weft_connection_request asked{};
  const auto get = [&](fid_ep* ep, size_t size) {
    const int result = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_REQUEST, &asked, &size);
    EXPECT_EQ(size, result == -FI_EOPBADSTATE ? size : sizeof asked);
    return result;
  };
  Connection connection({.before_connect =
                             [&](fid_ep* ep) {
                               EXPECT_EQ(get(ep, sizeof asked), -FI_EOPBADSTATE) << "it accepts no request";
                               set_all(&ep->fid, kChosen);
                             },
                         .before_accept =
                             [&](fid_ep* ep) {
                               EXPECT_EQ(get(ep, sizeof asked - 1), -FI_ETOOSMALL);
                               EXPECT_EQ(get(ep, sizeof asked), 0);
                             }});
  EXPECT_EQ(asked.responder_resources, 3) << "the peer's initiator depth";
  EXPECT_EQ(asked.initiator_depth, 4) << "the peer's responder resources";
  EXPECT_EQ(asked.retry_count, 5);
  EXPECT_EQ(asked.rnr_retry_count, 2);
  EXPECT_EQ(asked.flow_control, 0);
  EXPECT_EQ(asked.shared_receives, 0);
  EXPECT_EQ(get(connection.both.server.ep, sizeof asked), -FI_EOPBADSTATE);
  expect_all(&connection.both.server.ep->fid,
             {{FI_OPT_WEFT_RESPONDER_RESOURCES, 3}, {FI_OPT_WEFT_INITIATOR_DEPTH, 4}, {FI_OPT_WEFT_RETRY_COUNT, 5}});
}

TEST_F(FaultsProperties, OptionsOutsideTheirRangeAreRefusedAndChangeNothing) {
  const auto refuse = [](fid* object) {
    for (const auto& [option, value] : Values{{FI_OPT_WEFT_RESPONDER_RESOURCES, 256},
                                              {FI_OPT_WEFT_RESPONDER_RESOURCES, -1},
                                              {FI_OPT_WEFT_INITIATOR_DEPTH, 256},
                                              {FI_OPT_WEFT_RETRY_COUNT, 8},
                                              {FI_OPT_WEFT_RNR_RETRY_COUNT, -1},
                                              {FI_OPT_WEFT_FLOW_CONTROL, 2},
                                              {FI_OPT_WEFT_MIN_RNR_TIMER_US, 655'361},
                                              {FI_OPT_WEFT_MIN_RNR_TIMER_US, -1},
                                              {FI_OPT_WEFT_ACK_TIMEOUT_US, -2},
                                              {FI_OPT_WEFT_TYPE_OF_SERVICE, 256}}) {
      const int before = value_of(object, option);
      EXPECT_EQ(fi_setopt(object, FI_OPT_ENDPOINT, option, &value, sizeof value), -FI_EINVAL) << option << " " << value;
      EXPECT_EQ(fi_setopt(object, FI_OPT_ENDPOINT, option, &value, sizeof value - 1), -FI_EINVAL);
      EXPECT_EQ(value_of(object, option), before);
    }
  };
  Connection connection({.before_connect = [&](fid_ep* ep) { refuse(&ep->fid); }},
                        [&](fid_pep* pep) { refuse(&pep->fid); });
  const int one = 1;
  EXPECT_EQ(fi_setopt(&connection.both.client.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_RETRY_COUNT, &one, sizeof one),
            -FI_EOPBADSTATE);
}

TEST_F(FaultsProperties, TimesAreRoundedUpToTheNextCode) {
  Connection connection({.before_connect = [](fid_ep* ep) {
    for (const auto& [wanted, chosen] :
         Values{{0, 10}, {10, 10}, {11, 20}, {641, 960}, {491'520, 491'520}, {491'521, 655'360}}) {
      set_all(&ep->fid, {{FI_OPT_WEFT_MIN_RNR_TIMER_US, wanted}});
      EXPECT_EQ(value_of(&ep->fid, FI_OPT_WEFT_MIN_RNR_TIMER_US), chosen) << wanted;
    }
    for (const auto& [wanted, chosen] :
         Values{{-1, -1}, {0, 0}, {1, 8}, {8, 8}, {9, 16}, {1'000'000, 1'073'741}, {2'000'000'000, 2'147'483'647}}) {
      set_all(&ep->fid, {{FI_OPT_WEFT_ACK_TIMEOUT_US, wanted}});
      EXPECT_EQ(value_of(&ep->fid, FI_OPT_WEFT_ACK_TIMEOUT_US), chosen) << wanted;
    }
    set_all(&ep->fid, {{FI_OPT_WEFT_ACK_TIMEOUT_US, -1}});
  }});
}

// ---- Addresses that do not answer ----

TEST_F(FaultsProperties, AddressThatDoesNotAnswerEndsWithinThreeSeconds) {
  for (const char* timeout : {"", "300"}) {
    std::optional<Parameter> set;
    if (*timeout != 0) set.emplace("FI_VERBS_ADDRESS_TIMEOUT", timeout);
    ends::TwoEnds both({.connect_timeout_ms = -1});  // refused, so the endpoint has the default
    ASSERT_TRUE(both.open());
    fake::set_reach("10.9.9.2", fake::Reach::kNoNeighbour);
    ASSERT_TRUE(both.connect_to("10.9.9.2", 7471));
    const auto started = std::chrono::steady_clock::now();
    EXPECT_TRUE(both.wait([&] { return both.client.over(); }, 10'000));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    EXPECT_LT(took.count(), *timeout != 0 ? 1.5 : 3.5);
    EXPECT_EQ(both.client.error, FI_EHOSTUNREACH) << both.client.sentence;
    EXPECT_NE(both.client.sentence.find("does not answer (ARP"), std::string::npos) << both.client.sentence;
    both.client.close_endpoint(both);
    both.close();
    EXPECT_EQ(both.verdict(), "");
  }
}

TEST_F(FaultsProperties, AnotherTryNeedsNotThePortOfTheLast) {
  const Parameter route("FI_VERBS_RESOLVE_TIMEOUT", "50");
  ends::TwoEnds both({.connect_timeout_ms = 1000});
  ASSERT_TRUE(both.open());
  fake::set_reach("10.9.9.2", fake::Reach::kNoPath);
  ASSERT_TRUE(both.connect_to("10.9.9.2", 7471));
  uint16_t first = 0;
  ASSERT_TRUE(both.wait([&] {
    for (const fake::IdState& id : fake::ids())
      if (id.role == fake::Role::kActive) first = id.local_port;
    return first != 0;
  }));
  // Another program takes the port as soon as the first try has failed.
  rdma_event_channel* const channel = rdma_create_event_channel();
  rdma_cm_id* other = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &other, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in taken{};
  taken.sin_family = AF_INET;
  taken.sin_port = htons(first);
  EXPECT_TRUE(both.wait([&] { return rdma_bind_addr(other, reinterpret_cast<sockaddr*>(&taken)) == 0; }));
  EXPECT_TRUE(both.wait([&] { return both.client.over(); }, 10'000));
  EXPECT_EQ(both.client.error, FI_ETIMEDOUT) << both.client.sentence;
  rdma_destroy_id(other);
  rdma_destroy_event_channel(channel);
  both.client.close_endpoint(both);
  both.close();
  EXPECT_EQ(both.verdict(), "");
}

}  // namespace faults_properties_test
