// SPDX-License-Identifier: BSD-2-Clause
// fi_close while the peer, the network or the kernel is slow: the peer still learns of the end, remaining resources are
// released later, and other connections do not wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "fake_rdma.h"
#include "two_ends.h"

namespace faults_idle_close_test {

namespace {

size_t ids_in_state(const std::string& state) {
  const auto ids = fake::ids();
  return static_cast<size_t>(std::count_if(ids.begin(), ids.end(), [&](const auto& id) { return id.state == state; }));
}

std::chrono::milliseconds time_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
}

}  // namespace

class FaultsIdleClose : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    fake::set_timing({.disconnect_timeout = 300, .retries_exceeded = 30});
  }
  void TearDown() override { fake::reset(); }

  static void connect(ends::TwoEnds& both) {
    ASSERT_TRUE(both.open() && both.connect());
    ASSERT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); }));
  }
  static void finish(ends::TwoEnds& both) {
    both.expect_ended();
    both.close();
    EXPECT_EQ(both.verdict(), "");
  }
};

// The acceptance arrives, its confirmation does not: the closing end still waits for it, and the other end is
// connected.
TEST_F(FaultsIdleClose, AcceptorClosingBeforeItIsConnectedNotifiesItsPeer) {
  ends::TwoEnds both({.connect_timeout_ms = 20'000});
  fake::lose(fake::Message::kReadyToUse);
  ASSERT_TRUE(both.open() && both.connect());
  ASSERT_TRUE(both.wait([&] { return both.client.established(); }));
  ASSERT_FALSE(both.server.connected);
  both.server.close_endpoint(both);
  EXPECT_TRUE(both.wait([&] { return both.client.terminals == 1; })) << "the connected end gets FI_SHUTDOWN";
  finish(both);
}

// The request arrives and its answer waits: the acceptor learns that the connector is gone.
TEST_F(FaultsIdleClose, ConnectorClosingBeforeItIsConnectedNotifiesItsPeer) {
  ends::TwoEnds both({.connect_timeout_ms = 20'000});
  fake::hold(nullptr, RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_TRUE(both.open() && both.connect());
  ASSERT_TRUE(both.wait([&] { return both.server.started; }));
  both.client.close_endpoint(both);
  EXPECT_TRUE(both.wait([&] { return both.server.terminals == 1; }));
  finish(both);
}

TEST_F(FaultsIdleClose, ClosedConnectionWaitsForItsPeerAndIsThenReleased) {
  for (const bool shut_down_before : {false, true}) {
    ends::TwoEnds both;
    ASSERT_NO_FATAL_FAILURE(connect(both));
    fake::lose(fake::Message::kDisconnect);
    if (shut_down_before) {
      fi_shutdown(both.client.ep, 0);
      ASSERT_TRUE(both.wait([&] { return both.client.terminals == 1; }));
    }
    both.client.close_endpoint(both);
    EXPECT_EQ(ids_in_state("disconnect sent"), 1U) << "so that the message can be repeated";
    EXPECT_TRUE(both.wait([&] { return ids_in_state("disconnect sent") + ids_in_state("timewait") == 0; }));
    EXPECT_EQ(fake::live_objects()["cm id"], 2) << "those of the listener and of the server";
    both.server.close_endpoint(both);
    finish(both);
    SetUp();
  }
}

// As when a bond changes its active interface: the connection goes on.
TEST_F(FaultsIdleClose, ConnectionWhoseAddressChangedStillWaitsForItsPeer) {
  ends::TwoEnds both;
  ASSERT_NO_FATAL_FAILURE(connect(both));
  for (const auto& id : fake::ids())
    if (id.role == fake::Role::kActive) fake::inject_cm_event(id.id, RDMA_CM_EVENT_ADDR_CHANGE);
  both.poll();
  fake::lose(fake::Message::kDisconnect);
  both.client.close_endpoint(both);
  EXPECT_EQ(ids_in_state("disconnect sent"), 1U) << "so that the message can be repeated";
  both.server.close_endpoint(both);
  finish(both);
}

TEST_F(FaultsIdleClose, ConnectionClosedByThePeerFirstLeavesNothing) {
  ends::TwoEnds both;
  ASSERT_NO_FATAL_FAILURE(connect(both));
  both.client.close_endpoint(both);
  ASSERT_TRUE(both.wait([&] { return both.server.terminals == 1; }));
  both.server.close_endpoint(both);
  EXPECT_TRUE(both.wait([&] { return fake::live_objects()["cm id"] == 1; })) << "that of the listener";
  finish(both);
}

// Posted operations must be flushed, which takes kernel calls; without any, the queue pair is just destroyed.
TEST_F(FaultsIdleClose, OnlyQueuePairsWithPostedOperationsEnterTheErrorState) {
  for (const int receives : {0, 1}) {
    ends::TwoEnds both({.receives = receives});
    ASSERT_NO_FATAL_FAILURE(connect(both));
    const auto before = fake::calls()["ibv_modify_qp"];
    both.client.close_endpoint(both);
    ASSERT_TRUE(both.wait([&] { return both.server.terminals == 1; }));
    EXPECT_EQ(both.server.outstanding(), 0U);
    both.server.close_endpoint(both);
    EXPECT_EQ(fake::calls()["ibv_modify_qp"] != before, receives != 0);
    finish(both);
    SetUp();
  }
}

TEST_F(FaultsIdleClose, SlowKernelDelaysNoOtherConnection) {
  constexpr int kSlowMs = 1000;
  for (const char* call : {"ibv_destroy_qp", "rdma_destroy_id"}) {
    ends::TwoEnds both({.automatic_progress = true});
    ASSERT_NO_FATAL_FAILURE(connect(both));
    // fi_close destroys the id itself if the peer closed first.
    fi_shutdown(both.server.ep, 0);
    ASSERT_TRUE(both.wait([&] { return both.client.terminals == 1 && both.server.terminals == 1; }));
    fake::slow(call, kSlowMs);
    auto closed = std::async(std::launch::async, [&] { return fi_close(&both.client.ep->fid); });
    EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout) << call << " is not slow";
    const auto others = time_of([&] {
      std::array<char, 256> name;
      size_t length = name.size();
      fi_getname(&both.listener->fid, name.data(), &length);
      both.poll();
    });
    EXPECT_LT(others.count(), kSlowMs / 2) << call;
    EXPECT_EQ(closed.get(), 0);
    both.client.ep = nullptr;
    both.client.closed = true;
    fake::slow(call, 0);
    finish(both);
  }
}

}  // namespace faults_idle_close_test
