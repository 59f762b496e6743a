// SPDX-License-Identifier: BSD-2-Clause
// Idle connections (FI_VERBS_KEEPALIVE): the loss of a peer is detected, whichever thread is awake; a live peer is
// probed unnoticed.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "fake_rdma.h"
#include "two_ends.h"

namespace faults_keepalive_test {

namespace {

uint64_t posts() {
  return fake::calls()["ibv_post_send"];
}

// Nothing is sent meanwhile, so all posts are probes.
bool wait_for_posts(ends::TwoEnds& both, uint64_t count) {
  const uint64_t before = posts();
  return both.wait([&] { return posts() >= before + count; }, 20'000);
}

// The event that wakes a sleeping reader, or a negative errno. No other thread reads.
ssize_t sleep_for_event(fid_eq* queue, uint32_t* event) {
  alignas(fi_eq_cm_entry) char entry[512];
  return fi_eq_sread(queue, event, entry, sizeof entry, 20'000, 0);
}

}  // namespace

class FaultsKeepalive : public testing::Test {
 protected:
  void SetUp() override {
    setenv("FI_VERBS_KEEPALIVE", "1", 1);
    fake::reset();
    fake::set_timing({.request_timeout = 500, .disconnect_timeout = 100, .retries_exceeded = 30});
  }
  void TearDown() override {
    unsetenv("FI_VERBS_KEEPALIVE");
    fake::reset();
  }

  static void connect(ends::TwoEnds& both) {
    ASSERT_TRUE(both.open() && both.connect());
    ASSERT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); }));
  }
  static void vanish(ends::TwoEnds& both) {
    fake::lose(fake::Message::kDisconnect);
    both.server.close_endpoint(both);
  }
  static void finish(ends::TwoEnds& both) {
    fake::deliver_data();
    both.expect_ended();
    both.close();
    EXPECT_EQ(both.verdict(), "");
  }
};

TEST_F(FaultsKeepalive, VanishedPeerIsDetected) {
  fake::keep_completions_of_destroyed(true);
  ends::TwoEnds both;
  ASSERT_NO_FATAL_FAILURE(connect(both));
  vanish(both);
  EXPECT_TRUE(both.wait([&] { return both.client.terminals == 1; }, 20'000));
  EXPECT_EQ(both.client.history.back(), "shutdown");
  finish(both);
}

TEST_F(FaultsKeepalive, VanishedPeerWakesSleepingReader) {
  for (const bool automatic : {false, true}) {
    ends::TwoEnds both({.automatic_progress = automatic});
    ASSERT_NO_FATAL_FAILURE(connect(both));
    vanish(both);
    uint32_t event = 0;
    ASSERT_GT(sleep_for_event(both.client.eq, &event), 0);
    EXPECT_EQ(event, uint32_t{FI_SHUTDOWN});
    ++both.client.terminals;
    both.poll();
    EXPECT_EQ(both.client.outstanding(), 0U) << "its receives were flushed";
    finish(both);
  }
}

TEST_F(FaultsKeepalive, ProbesOfLivePeersAreInvisible) {
  ends::TwoEnds both;
  ASSERT_NO_FATAL_FAILURE(connect(both));
  ASSERT_TRUE(wait_for_posts(both, 5)) << "at least two of one end";
  EXPECT_TRUE(both.client.established() && both.server.established());
  EXPECT_EQ(both.client.completed + both.client.failed + both.server.completed + both.server.failed, 0U);
  both.transfer();
  EXPECT_GE(both.client.completed, 4U);
  both.client.close_endpoint(both);
  finish(both);
}

TEST_F(FaultsKeepalive, ProbesTakeNoRoomInTheQueue) {
  ends::TwoEnds both;
  ASSERT_NO_FATAL_FAILURE(connect(both));
  fake::hold_data();
  ASSERT_TRUE(wait_for_posts(both, 2));
  size_t accepted = 0;
  while (accepted < 64 && both.client.post_rma(both.server, false)) ++accepted;
  EXPECT_EQ(accepted, 16U) << "as many as asked for";
  fake::deliver_data();
  ASSERT_TRUE(both.wait([&] { return both.client.completed == accepted; }));
  EXPECT_EQ(fake::overruns(), 0U);
  ASSERT_TRUE(wait_for_posts(both, 2)) << "probing continues";
  both.client.close_endpoint(both);
  finish(both);
}

TEST_F(FaultsKeepalive, BusyConnectionsAreNotProbed) {
  ends::TwoEnds both;
  ASSERT_NO_FATAL_FAILURE(connect(both));
  const uint64_t before = posts();
  uint64_t written = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < until) {
    written += both.client.post_rma(both.server, false) ? 1 : 0;
    written += both.server.post_rma(both.client, false) ? 1 : 0;
    both.wait([&] { return both.client.outstanding() <= 4 && both.server.outstanding() <= 4; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(posts(), before + written);
  both.client.close_endpoint(both);
  finish(both);
}

TEST_F(FaultsKeepalive, ConnectionEndsDuringAProbe) {
  enum class End { kClose, kShutdown, kPeerEnds };
  struct Case {
    End end;
    bool keep;    // completions of destroyed queue pairs
    bool inject;  // first inject: its record waits for a work completion
  };
  for (const Case& each : {Case{End::kClose, false, true}, Case{End::kClose, true, false},
                           Case{End::kShutdown, false, true}, Case{End::kPeerEnds, true, false}}) {
    SetUp();
    fake::keep_completions_of_destroyed(each.keep);
    ends::TwoEnds both;
    ASSERT_NO_FATAL_FAILURE(connect(both));
    if (each.inject) both.client.post_send(true);
    fake::hold_data();
    ASSERT_TRUE(wait_for_posts(both, 2));
    both.client.post_rma(both.server, false);
    if (each.end == End::kShutdown) fi_shutdown(both.client.ep, 0);
    if (each.end != End::kShutdown) (each.end == End::kClose ? both.client : both.server).close_endpoint(both);
    EXPECT_TRUE(both.wait([&] { return both.client.over(); }));
    EXPECT_EQ(both.client.outstanding(), 0U);
    both.client.close_endpoint(both);
    finish(both);
  }
}

TEST_F(FaultsKeepalive, ProbesContinueAfterThePortWasDown) {
  setenv("FI_VERBS_PORT_DOWN_GRACE", "100", 1);
  ends::TwoEnds both;
  ASSERT_NO_FATAL_FAILURE(connect(both));
  unsetenv("FI_VERBS_PORT_DOWN_GRACE");
  fake::set_port_state("fake0", IBV_PORT_DOWN);
  both.poll();
  fake::set_port_state("fake0", IBV_PORT_ACTIVE);
  ASSERT_TRUE(wait_for_posts(both, 5)) << "at least two of one end";
  EXPECT_TRUE(both.client.established() && both.server.established());
  both.client.close_endpoint(both);
  finish(both);
}

TEST_F(FaultsKeepalive, ZeroDisablesProbes) {
  setenv("FI_VERBS_KEEPALIVE", "0", 1);
  ends::TwoEnds both;
  ASSERT_NO_FATAL_FAILURE(connect(both));
  const uint64_t before = posts();
  EXPECT_FALSE(both.wait([&] { return posts() != before; }, 1500));
  both.client.close_endpoint(both);
  finish(both);
}

}  // namespace faults_keepalive_test
