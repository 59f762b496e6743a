// SPDX-License-Identifier: BSD-2-Clause
// Failures beneath reliable datagrams (ofi_rxm over verbs): a failure at one end leaves no operation at the other
// pending for ever.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "call_failures.h"
#include "fake_rdma.h"
#include "log_capture.h"
#include "reliable_end.h"
#include "without_devices.h"

namespace faults_reliable_test {

namespace {

using ends::kLong;
using ends::ReliableEnd;

// A conversation in which any call may fail. Every accepted operation must end. Returns "", or the operation that did
// not end.
std::string converse() {
  ReliableEnd end;
  std::string verdict;
  if (end.open()) {
    for (const size_t len : {size_t{64}, size_t{20000}, kLong, kLong}) {
      const bool waits = end.receive(len, len);
      if (end.send(len, len) && end.sent() == -1) verdict += "a send never ends; ";
      if (waits && end.received_or_cancelled() == -1) verdict += "a receive never ends; ";
    }
  }
  end.close();
  return verdict;
}

class FaultsReliable : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    setenv("FI_OFI_RXM_CONNECT_TIMEOUT", "500", 1);
    setenv("FI_OFI_RXM_ANSWER_TIMEOUT", "500", 1);
  }
  void TearDown() override {
    unsetenv("FI_OFI_RXM_CONNECT_TIMEOUT");
    unsetenv("FI_OFI_RXM_ANSWER_TIMEOUT");
    unsetenv("FI_MR_CACHE_MONITOR");
    fake::reset();
    EXPECT_EQ(fake::leaks(), "");
  }
  static void exchange(ReliableEnd& end, size_t len, uint64_t tag) {
    end.out().assign(kLong, static_cast<char>(tag));
    ASSERT_TRUE(end.receive(len, tag) && end.send(len, tag));
    EXPECT_EQ(end.received(), 0);
    EXPECT_EQ(end.sent(), 0);
    EXPECT_EQ(std::memcmp(end.in().data(), end.out().data(), len), 0);
  }
};

}  // namespace

// The device does not report to the sender that the receiver had no memory for its message.
TEST_F(FaultsReliable, LongMessageThatCannotBeReceivedEndsAtItsSender) {
  setenv("FI_MR_CACHE_MONITOR", "disabled", 1);  // each message is registered
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  exchange(end, 64, 1);  // the connection is there
  exchange(end, kLong, 2);
  ASSERT_TRUE(end.receive(kLong, 3));
  fake::fail("ibv_reg_mr", 2, ENOMEM);  // the first is the sender's
  ASSERT_TRUE(end.send(kLong, 3));
  EXPECT_EQ(end.received(), FI_ENOMEM);
  EXPECT_TRUE(fake::failure_happened());
  EXPECT_NE(end.sent(), -1) << "the sender waits for ever";
  exchange(end, 64, 4);
  exchange(end, kLong, 5);
  end.close();
}

// Operations whose ends are lost must not just stay away.
TEST_F(FaultsReliable, OverrunOfTheLowerQueueOverrunsTheApplications) {
  ReliableEnd end;
  ASSERT_TRUE(end.open());
  exchange(end, 64, 1);
  const LogCapture log;
  fake::raise(fake::queue_pairs().back()->send_cq, IBV_EVENT_CQ_ERR);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (end.read() != -FI_EOVERRUN && std::chrono::steady_clock::now() < until) end.progress();
  EXPECT_EQ(end.read(), -FI_EOVERRUN);
  EXPECT_TRUE(log.has("the lower provider's completion queue cannot be read")) << log.text();
  end.close();
}

TEST_F(FaultsReliable, EachCallFailsOnce) {
  ASSERT_EQ(converse(), "");
  const auto calls = fake::calls();
  ASSERT_FALSE(calls.empty());
  int runs = 0, reached = 0;
  for (const auto& [call, count] : calls) {
    for (const uint64_t nth : ends::occurrences(count)) {
      fake::reset();
      fake::set_timing({.request_timeout = 500, .disconnect_timeout = 200, .retries_exceeded = 50});
      fake::fail(call, nth, ends::error_for(call));
      EXPECT_EQ(converse(), "") << call << " number " << nth << " of " << count << " failing";
      ++runs;
      reached += fake::failure_happened();
      EXPECT_EQ(fake::leaks(), "") << call << " number " << nth << " of " << count << " failing";
      fake::reset();
    }
  }
  EXPECT_GT(reached, runs / 2);
  std::printf("%d runs, the failing call was reached in %d\n", runs, reached);
}

class FaultsLockedMemory : public WithoutDevices {};

// The limit (ulimit -l) leaves room for the first packets only.
TEST_F(FaultsLockedMemory, MessagesThatWaitForMemoryAreLogged) {
  const LogCapture log;
  fake::DeviceConfig config;
  config.lockable_bytes = 600'000;
  fake::add_device(config);
  ReliableEnd end;
  ASSERT_TRUE(end.open() && end.receive(64, 1) && end.send(64, 1));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!log.has("no memory for messages") && std::chrono::steady_clock::now() < limit) end.progress();
  EXPECT_TRUE(log.has("no memory for messages")) << log.text();
  end.close();
}

}  // namespace faults_reliable_test
