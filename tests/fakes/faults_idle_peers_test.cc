// SPDX-License-Identifier: BSD-2-Clause
// The memory cost of an idle peer of reliable datagrams over verbs, with receive buffers per connection and with shared
// ones.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <deque>

#include "fake_rdma.h"
#include "reliable_end.h"

namespace faults_idle_peers_test {

namespace {

using ends::ReliableEnd;

void exchange(ReliableEnd& from, ReliableEnd& to) {
  ASSERT_TRUE(from.meet(to) && to.receive(8, 1) && from.send(8, 1));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while ((!from.has_sent() || !to.has_received()) && std::chrono::steady_clock::now() < until) {
    from.progress();
    to.progress();
  }
  ASSERT_EQ(from.sent(), 0);
  ASSERT_EQ(to.received(), 0);
}

// The bytes that one endpoint registers for its peers, after a message has been exchanged with each of `count` peers.
uint64_t bytes_for_peers(const char* shared, size_t count) {
  fake::reset();
  const auto foreign = fake::registered_bytes();  // left by tests that made deregistrations fail
  setenv("FI_OFI_RXM_USE_SRX", shared, 1);
  std::deque<ReliableEnd> ends(count + 1);
  ReliableEnd& hub = ends.front();
  EXPECT_TRUE(hub.open());
  exchange(hub, hub);
  auto before = fake::registered_bytes();
  for (const auto& [domain, bytes] : foreign) before.erase(domain);
  EXPECT_EQ(before.size(), 1u);
  for (size_t i = 1; i <= count && !testing::Test::HasFailure(); ++i) {
    EXPECT_TRUE(ends[i].open());
    exchange(hub, ends[i]);
  }
  const uint64_t bytes = fake::registered_bytes()[before.begin()->first] - before.begin()->second;
  for (ReliableEnd& end : ends) end.close();
  unsetenv("FI_OFI_RXM_USE_SRX");
  EXPECT_EQ(fake::leaks(), "");
  return bytes;
}

}  // namespace

TEST(FaultsIdlePeers, SharedBuffersCostTheSameForEachNumberOfPeers) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  std::printf("registered bytes for idle peers\n%8s %12s %12s\n", "peers", "their own", "shared");
  uint64_t of_few = 0;
  for (const size_t count : {25, 100}) {
    const uint64_t own = bytes_for_peers("0", count);
    const uint64_t shared = bytes_for_peers("1", count);
    std::printf("%8zu %12llu %12llu\n", count, static_cast<unsigned long long>(own),
                static_cast<unsigned long long>(shared));
    ASSERT_FALSE(HasFailure());
    EXPECT_GT(own, count * 100'000u);
    EXPECT_LT(shared, 2'500'000u);
    if (of_few == 0) of_few = shared;
    EXPECT_LE(shared, of_few);
  }
}

TEST(FaultsIdlePeers, IdleConnectionsCloseAndReopen) {
  fake::reset();
  const size_t foreign = fake::queue_pairs().size();  // left by tests that made destructions fail
  setenv("FI_OFI_RXM_IDLE_TIMEOUT", "10", 1);
  std::deque<ReliableEnd> ends(2);
  for (ReliableEnd& end : ends) ASSERT_TRUE(end.open());
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    exchange(ends[round % 2], ends[1 - round % 2]);
    EXPECT_EQ(fake::queue_pairs().size(), foreign + 2);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (fake::queue_pairs().size() != foreign && std::chrono::steady_clock::now() < until)
      for (ReliableEnd& end : ends) end.progress();
    EXPECT_EQ(fake::queue_pairs().size(), foreign);
  }
  for (ReliableEnd& end : ends) end.close();
  unsetenv("FI_OFI_RXM_IDLE_TIMEOUT");
  EXPECT_EQ(fake::leaks(), "");
}

}  // namespace faults_idle_peers_test
