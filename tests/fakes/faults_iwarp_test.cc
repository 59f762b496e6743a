// SPDX-License-Identifier: BSD-2-Clause
// Connections over iWARP, where the kernel's connection manager differs: the id of a request that is not answered takes
// ten seconds to destroy, and a rejection may look like a reset; fi_cm(3), rdma_destroy_id(3).
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <chrono>

#include "fake_rdma.h"
#include "two_ends.h"

namespace faults_iwarp_test {

class FaultsIwarp : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    fake::retire_devices();
    fake::DeviceConfig device;
    device.iwarp = true;
    fake::add_device(device);
  }
  void TearDown() override {
    fake::reset();
    fake::retire_devices();
  }
};

TEST_F(FaultsIwarp, SlowDestructionOfAnIdDelaysNeitherTheErrorNorTheClose) {
  ends::TwoEnds both({.connect_timeout_ms = 200, .iwarp = true});
  both.answer_requests = false;
  ASSERT_TRUE(both.open() && both.connect());
  ASSERT_TRUE(both.wait([&] { return both.request_seen; }));
  constexpr int kSlowMs = 3000;
  fake::slow("rdma_destroy_id", kSlowMs);
  const auto started = std::chrono::steady_clock::now();
  EXPECT_TRUE(both.wait([&] { return both.client.over(); }));
  both.client.close_endpoint(both);
  const auto took = std::chrono::steady_clock::now() - started;
  fake::slow("rdma_destroy_id", 0);
  EXPECT_LT(took, std::chrono::milliseconds(kSlowMs));
  EXPECT_EQ(both.client.error, FI_ETIMEDOUT) << both.client.sentence;
  for (fi_info* request : both.requests) both.answer(request);
  both.requests.clear();
  both.close();
  EXPECT_EQ(both.verdict(), "");
}

}  // namespace faults_iwarp_test
