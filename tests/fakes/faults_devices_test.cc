// SPDX-License-Identifier: BSD-2-Clause
// Habits of single devices that neither Soft-RoCE nor mlx5 has; ibv_post_send(3). The accounts balance (two_ends.h).
#include <gtest/gtest.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "fake_rdma.h"
#include "two_ends.h"
#include "without_devices.h"

namespace faults_devices_test {

class FaultsDevices : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override { fake::reset(); }

  // Runs `act` on a connection; then the client closes, and all accounts balance.
  static void with_connection(const std::function<void(ends::TwoEnds&)>& act) {
    ends::TwoEnds both;
    ASSERT_TRUE(both.open() && both.connect());
    ASSERT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); }));
    act(both);
    if (both.client.established()) both.client.close_endpoint(both);
    both.expect_ended();
    both.close();
    EXPECT_EQ(both.verdict(), "");
  }
};

// erdma looks at the first buffer of every read.
TEST_F(FaultsDevices, ReadsOfNoBytesHaveAnEmptyBuffer) {
  with_connection([](ends::TwoEnds& both) {
    EXPECT_TRUE(both.client.post_read_of(both.server, 0));
    EXPECT_TRUE(both.wait([&] { return both.client.completed == 1; }));
  });
}

// irdma sends only the first buffer of inline data.
TEST_F(FaultsDevices, InlineDataOfSeveralBuffersGoesInOne) {
  with_connection([](ends::TwoEnds& both) {
    std::memcpy(both.client.memory(), "gathered", 8);
    EXPECT_TRUE(both.client.post_send_of(2, 0));
    EXPECT_TRUE(both.client.post_send_of(2, FI_DELIVERY_COMPLETE));
    EXPECT_TRUE(both.client.post_send_of(2, FI_MORE));
    EXPECT_TRUE(both.client.post_send_of(2, FI_INJECT));
    EXPECT_TRUE(both.wait([&] { return both.client.completed == 4 && both.server.completed == 4; }));
    EXPECT_EQ(std::string(both.server.memory() + 4096, 8), "gathered");
  });
}

// mana drops the receives of a queue pair that enters INIT again.
TEST_F(FaultsDevices, ReceivesOutliveARepeatedAttemptToConnect) {
  ends::TwoEnds both({.connect_timeout_ms = 5000});
  ASSERT_TRUE(both.open());
  fake::lose(fake::Message::kRequest);
  ASSERT_TRUE(both.connect());
  const rdma_cm_id* id = nullptr;
  ASSERT_TRUE(both.wait([&] {
    for (const fake::IdState& each : fake::ids())
      if (each.state == std::string("request sent")) id = each.id;
    return id != nullptr;
  }));
  fake::inject_cm_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  ASSERT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); }));
  EXPECT_TRUE(both.server.post_send());
  EXPECT_TRUE(both.wait([&] { return both.client.completed == 1; }));
  both.close();
  EXPECT_EQ(both.verdict(), "");
}

// cxgb4 and erdma post nothing behind the last operation, siw and mana do not flush that.
TEST_F(FaultsDevices, SilentOperationsThatSucceededDoNotDelayTheEnd) {
  for (const fake::LateSends treatment : {fake::LateSends::kRefused, fake::LateSends::kLost}) {
    with_connection([&](ends::TwoEnds& both) {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(both.client.post_send(true));
      EXPECT_TRUE(both.wait([&] { return both.server.completed == 3; }));
      fake::treat_late_sends(treatment);
      const auto started = std::chrono::steady_clock::now();
      both.client.close_endpoint(both);
      EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(500));
    });
    fake::reset();
  }
}

// A device that refuses the marker flushes after a while. No receives are posted, because the end waits for them, too.
TEST_F(FaultsDevices, SilentOperationsThatFailedAreReportedWithoutAMarker) {
  ends::TwoEnds both({.receives = 0});
  ASSERT_TRUE(both.open() && both.connect());
  ASSERT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); }));
  fake::hold_data();
  EXPECT_TRUE(both.client.post_send(true));
  fake::treat_late_sends(fake::LateSends::kRefused);
  fake::flush_late(true);
  both.server.close_endpoint(both);
  EXPECT_FALSE(both.wait([&] { return both.client.terminals != 0; }, 50)) << "the end comes before the error";
  fake::flush_late(false);
  EXPECT_TRUE(both.wait([&] { return both.client.terminals != 0; }));
  EXPECT_NE(both.client.send_error, 0);
}

// cxgb4, erdma and siw answer with the negative of the error.
TEST_F(FaultsDevices, NegativeErrorsOfPostsAreReportedAsErrors) {
  with_connection([](ends::TwoEnds& both) {
    const auto inject = [&](int error) {
      fake::fail("ibv_post_send", 1, error);
      return fi_inject(both.client.ep, "x", 1, FI_ADDR_UNSPEC);
    };
    EXPECT_EQ(inject(-ENOMEM), -FI_EAGAIN);
    EXPECT_EQ(inject(-EINVAL), -FI_EINVAL);
    EXPECT_TRUE(both.client.post_send_of(1, FI_MORE));
    fake::fail("ibv_post_send", 1, -EIO);
    EXPECT_TRUE(both.client.post_send_of(1, 0));
    EXPECT_TRUE(both.wait([&] { return both.client.failed == 2; }));
    EXPECT_EQ(both.client.send_error, FI_EIO);
  });
}

class FaultsOwnTransport : public WithoutDevices {};

// EFA and usNIC.
TEST_F(FaultsOwnTransport, DeviceWithATransportOfItsOwnIsNotOffered) {
  fake::DeviceConfig config;
  config.addresses = {"127.0.0.1"};
  config.own_transport = true;
  fake::add_device(config);
  fi_info* const hints = fi_allocinfo();
  hints->fabric_attr->prov_name = strdup("verbs");
  fi_info* found = nullptr;
  EXPECT_EQ(fi_getinfo(FI_VERSION(1, 18), nullptr, nullptr, 0, hints, &found), -FI_ENODATA);
  fi_freeinfo(hints);
  fi_freeinfo(found);
}

}  // namespace faults_devices_test
