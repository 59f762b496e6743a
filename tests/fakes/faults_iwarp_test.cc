// SPDX-License-Identifier: BSD-2-Clause
// Connections over iWARP, where the kernel's connection manager differs: the id of a request that is not answered takes
// ten seconds to destroy, and a rejection may look like a reset; fi_cm(3), rdma_destroy_id(3). Messages over it: one
// that finds no receive ends the connection, and completion queues cannot be enlarged.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include <chrono>

#include "fake_iwarp.h"
#include "fake_rdma.h"
#include "log_capture.h"
#include "reliable_end.h"
#include "two_ends.h"
#include "without_devices.h"

namespace faults_iwarp_test {

class FaultsIwarp : public WithoutDevices {
 protected:
  void SetUp() override {
    WithoutDevices::SetUp();
    fake::add_device(fake::iwarp_device());
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

TEST_F(FaultsIwarp, RetriesOfTheDeviceAreRefusedWithTheReason) {
  const LogCapture log;
  int refused = 0;
  const auto choose = [&](fid_ep* ep) {
    const int number = 3;
    for (const int option : {FI_OPT_WEFT_RETRY_COUNT, FI_OPT_WEFT_RNR_RETRY_COUNT, FI_OPT_WEFT_MIN_RNR_TIMER_US,
                             FI_OPT_WEFT_ACK_TIMEOUT_US})
      if (fi_setopt(&ep->fid, FI_OPT_ENDPOINT, option, &number, sizeof number) == -FI_EOPNOTSUPP) ++refused;
    EXPECT_EQ(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_INITIATOR_DEPTH, &number, sizeof number), 0);
  };
  ends::TwoEnds both({.iwarp = true, .before_connect = choose});
  both.run();
  EXPECT_EQ(refused, 4);
  EXPECT_TRUE(log.has("iWARP (fake0) has no retries of its own")) << log.text();
  EXPECT_EQ(both.verdict(), "");
}

TEST_F(FaultsIwarp, QueueThatCannotBeEnlargedIsLongEnoughFromTheStart) {
  ends::TwoEnds both({.iwarp = true, .queue_entries = 4});
  both.run();
  EXPECT_EQ(fake::overruns(), 0u);
  EXPECT_EQ(both.verdict(), "");
  EXPECT_GT(both.client.completed, 0u);
}

// Many more than the receives that an endpoint posts, and at once: without counting, the connection would end.
TEST_F(FaultsIwarp, ReliableMessagesWaitForReceivesOfTheirPeer) {
  ends::ReliableEnd end;
  ASSERT_TRUE(end.open());
  for (const size_t len : {size_t{64}, size_t{4096}, size_t{100'000}, ends::kLong}) {
    const uint64_t messages = len <= 4096 ? 500 : 20;
    ASSERT_TRUE(end.receive(len, messages) && end.send(len, messages));  // there is a connection now
    ASSERT_EQ(end.received(), 0);
    for (uint64_t tag = 0; tag < messages; ++tag) ASSERT_TRUE(end.send(len, tag));
    for (uint64_t tag = 0; tag < messages; ++tag) {
      ASSERT_TRUE(end.receive(len, tag));
      ASSERT_EQ(end.received(), 0) << len << ", " << tag;
    }
  }
  end.close();
}

}  // namespace faults_iwarp_test
