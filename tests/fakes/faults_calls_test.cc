// SPDX-License-Identifier: BSD-2-Clause
// Every call of libibverbs and librdmacm in a conversation fails once, at its first and at later occurrences. The
// accounts balance in every case (two_ends.h).
#include <gtest/gtest.h>

#include <cstdio>

#include "call_failures.h"
#include "fake_rdma.h"
#include "two_ends.h"

namespace faults_calls_test {

namespace {

void set_short_times() {
  fake::set_timing({.request_timeout = 500, .disconnect_timeout = 200, .retries_exceeded = 50});
}

}  // namespace

class FaultsCalls : public testing::TestWithParam<ends::Options> {
 protected:
  void SetUp() override {
    fake::reset();
    fake::retire_devices();
    fake::DeviceConfig device;
    device.infiniband = GetParam().native;
    device.iwarp = GetParam().iwarp;
    fake::add_device(device);
  }
  void TearDown() override {
    fake::reset();
    fake::retire_devices();
  }

  static std::map<std::string, uint64_t> calls_without_failure() {
    fake::reset();
    set_short_times();
    ends::TwoEnds both(GetParam());
    both.run();
    EXPECT_EQ(both.verdict(), "");
    EXPECT_EQ(both.client.connected, 1);
    EXPECT_EQ(both.server.connected, 1);
    return fake::calls();
  }
};

TEST_P(FaultsCalls, ConversationWithoutFaultsBalances) {
  ASSERT_FALSE(calls_without_failure().empty());
}

TEST_P(FaultsCalls, EachCallFailsOnce) {
  int runs = 0, reached = 0;
  for (const auto& [call, count] : calls_without_failure()) {
    for (const uint64_t nth : ends::occurrences(count)) {
      fake::reset();
      set_short_times();
      fake::fail(call, nth, ends::error_for(call));
      ends::TwoEnds both(GetParam());
      both.run();
      ++runs;
      reached += fake::failure_happened();
      EXPECT_EQ(both.verdict(), "") << call << " number " << nth << " of " << count << " failing";
      fake::reset();
    }
  }
  EXPECT_GT(reached, runs / 2);
  std::printf("%d runs, the failing call was reached in %d\n", runs, reached);
}

INSTANTIATE_TEST_SUITE_P(, FaultsCalls,
                         testing::Values(ends::Options{}, ends::Options{.shared_receives = true},
                                         ends::Options{.automatic_progress = true}, ends::Options{.two_fabrics = true},
                                         ends::Options{.native = true}, ends::Options{.iwarp = true}),
                         [](const auto& param) {
                           return std::string(param.param.shared_receives      ? "shared_receives"
                                              : param.param.automatic_progress ? "automatic_progress"
                                              : param.param.two_fabrics        ? "two_fabrics"
                                              : param.param.native             ? "native_addresses"
                                              : param.param.iwarp              ? "iwarp"
                                                                               : "plain");
                         });

}  // namespace faults_calls_test
