// SPDX-License-Identifier: BSD-2-Clause
// Receives of connected endpoints: without a buffer, kept until the queue pair exists, of a shared context. The
// accounts balance (two_ends.h). fi_msg(3).
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <thread>

#include "fake_rdma.h"
#include "two_ends.h"

namespace faults_receives_test {

class FaultsReceives : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override { fake::reset(); }

  static bool connect(ends::TwoEnds& both) {
    return both.connect() && both.wait([&] { return both.client.established() && both.server.established(); });
  }
  static void finish(ends::TwoEnds& both) {
    if (both.client.established()) both.client.close_endpoint(both);
    both.expect_ended();
    both.close();
    EXPECT_EQ(both.verdict(), "");
  }
};

TEST_F(FaultsReceives, ReceiveWithoutBufferTakesEmptyMessagesAndTruncatesOthers) {
  for (const bool shared : {false, true}) {
    for (const uint64_t flags : {uint64_t{0}, uint64_t{FI_COMPLETION}}) {
      SCOPED_TRACE(testing::Message() << "shared " << shared << ", flags " << flags);
      ends::TwoEnds both({.shared_receives = shared, .receives = 0});
      ASSERT_TRUE(both.open() && connect(both));
      both.server.post_receive(flags, true);
      both.server.post_receive(flags, true);
      EXPECT_EQ(both.server.posted, 2U);
      ASSERT_TRUE(both.client.post_send(false, 0));
      EXPECT_TRUE(both.wait([&] { return both.server.completed == 1; }));
      ASSERT_TRUE(both.client.post_send());
      EXPECT_TRUE(both.wait([&] { return both.server.failed == 1 && both.client.completed == 2; }));
      EXPECT_TRUE(both.client.established() && both.server.established());
      both.server.post_receive(flags);
      ASSERT_TRUE(both.client.post_send());
      EXPECT_TRUE(both.wait([&] { return both.server.completed == 2; }));
      finish(both);
    }
  }
}

// A receive that was posted before the queue pair existed, and that the device then refuses.
TEST_F(FaultsReceives, RefusedMultiReceiveReturnsItsBuffer) {
  ends::TwoEnds both({.receives = 1, .receive_flags = FI_MULTI_RECV});
  ASSERT_TRUE(both.open());
  fake::fail("ibv_post_recv", 1, EINVAL);
  ASSERT_TRUE(connect(both));
  ASSERT_TRUE(both.wait([&] { return both.client.failed == 1; }));
  EXPECT_EQ(both.client.failed_flags & FI_MULTI_RECV, FI_MULTI_RECV);
  finish(both);
}

// An endpoint that is being closed has destroyed its queue pair, and the next queue pair gets the same number.
TEST_F(FaultsReceives, NewEndpointWithTheNumberOfAnOldOneGetsItsMessages) {
  fake::reuse_numbers(true);
  ends::TwoEnds both({.shared_receives = true});
  ASSERT_TRUE(both.open() && connect(both));
  both.client.close_endpoint(both);
  ASSERT_TRUE(both.wait([&] { return both.server.terminals == 1; }));
  fid_ep* const old = std::exchange(both.server.ep, nullptr);
  for (ends::End* end : {&both.client, &both.server}) {
    end->started = end->closed = false;
    end->connected = end->terminals = 0;
  }
  const size_t queue_pairs = fake::queue_pairs().size();
  fake::slow("rdma_destroy_id", 300);
  std::thread closer([&] { EXPECT_EQ(fi_close(&old->fid), 0); });
  EXPECT_TRUE(both.wait([&] { return fake::queue_pairs().size() < queue_pairs; }));
  EXPECT_TRUE(connect(both));
  closer.join();
  const size_t before = both.server.completed;
  both.server.post_receive();
  ASSERT_TRUE(both.client.post_send());
  EXPECT_TRUE(both.wait([&] { return both.server.completed == before + 1; }, 2000));
  finish(both);
}

}  // namespace faults_receives_test
