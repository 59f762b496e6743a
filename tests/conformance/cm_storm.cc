// SPDX-License-Identifier: BSD-2-Clause
// Many connections at once and one after the other: none dies silently, nothing is left behind; fi_cm(3).
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "fixture/driver.h"
#include "fixture/node.h"
#include "fixture/process.h"

namespace cm_storm {

CONFORMANCE_TOPIC(CmStorm);

namespace {

// Both ends of every connection share two queues, as in a server with many clients.
struct Crowd {
  explicit Crowd(const Target& target) : fabric(target), eq(fabric), cq(fabric), listener(fabric) {}

  Handle<fid_ep> endpoint(fi_info* info) {
    auto ep = opened<fid_ep>("fi_endpoint", [&](fid_ep** e) { return fi_endpoint(fabric.domain(), info, e, nullptr); });
    require_ok(fi_ep_bind(ep.get(), eq.fid(), 0), "fi_ep_bind EQ");
    require_ok(fi_ep_bind(ep.get(), cq.fid(), FI_TRANSMIT | FI_RECV), "fi_ep_bind CQ");
    return ep;
  }

  Fabric fabric;
  EventQueue eq;
  CompletionQueue cq;
  Listener listener;
};

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

TEST_P(CmStorm, ThousandRequestsOutstandingAtOneListenerAllConnect) {
  CONNECTED_ONLY();
  constexpr size_t kCount = 1000;
  raise_descriptor_limit();
  Crowd crowd(target());
  std::vector<Handle<fid_ep>> clients, answerers;
  std::map<fid_t, int> connected;
  for (size_t i = 0; i < kCount; ++i) {
    clients.push_back(crowd.endpoint(crowd.fabric.info()));
    ASSERT_EQ(fi_connect(clients.back().get(), crowd.listener.address().get(), nullptr, 0), 0) << i;
  }
  const auto deadline = after(12 * kPatience);  // emulated devices are slow
  while ((answerers.size() < kCount || connected.size() < 2 * kCount) && Clock::now() < deadline) {
    Event request = crowd.listener.eq().read();
    if (request.type == FI_CONNREQ) {
      answerers.push_back(crowd.endpoint(request.info.get()));
      ASSERT_EQ(fi_accept(answerers.back().get(), nullptr, 0), 0) << answerers.size();
    }
    const Event event = crowd.eq.read();
    if (event.type == FI_CONNECTED) ++connected[event.fid];
    ASSERT_NE(event.type, static_cast<int>(Event::kError)) << event;
    if (request.type == Event::kNothing && event.type == Event::kNothing) driver::poke();
  }
  EXPECT_EQ(answerers.size(), kCount);
  EXPECT_EQ(connected.size(), 2 * kCount);
  for (const auto& [fid, count] : connected) EXPECT_EQ(count, 1);
}

TEST_P(CmStorm, CyclesLeaveNothingBehind) {
  CONNECTED_ONLY();
  constexpr int kWarmUp = 200;
  const int cycles = asked_cycles(2000);
  Crowd crowd(target());
  size_t descriptors = 0, memory = 0;
  for (int i = 0; i < kWarmUp + cycles; ++i) {
    if (i == kWarmUp) {
      descriptors = open_descriptors();
      memory = resident_kib();
    }
    const auto client = crowd.endpoint(crowd.fabric.info());
    ASSERT_EQ(fi_connect(client.get(), crowd.listener.address().get(), nullptr, 0), 0) << i;
    const InfoPtr request = crowd.listener.next_request();
    const auto answerer = crowd.endpoint(request.get());
    ASSERT_EQ(fi_accept(answerer.get(), nullptr, 0), 0) << i;
    for (int side = 0; side < 2; ++side)
      ASSERT_EQ(crowd.eq.wait().type, static_cast<int>(FI_CONNECTED)) << "cycle " << i;
    ASSERT_EQ(fi_shutdown(client.get(), 0), 0);
    Event event = crowd.eq.wait();
    if (event.fid == &client->fid) event = crowd.eq.wait();
    ASSERT_EQ(event.type, static_cast<int>(FI_SHUTDOWN)) << "cycle " << i;
    ASSERT_EQ(event.fid, &answerer->fid);
  }
  EXPECT_TRUE(crowd.listener.eq().stays_silent(milliseconds(50)));
  EXPECT_LE(open_descriptors(), descriptors + 2);
  if (!kSanitized) {
    EXPECT_LE(resident_kib(), memory + 2048) << "KiB; started with " << memory;
  }
}

TEST_P(CmStorm, RejectedRequestsLeaveNothingBehind) {
  CONNECTED_ONLY();
  constexpr int kWarmUp = 50;
  const int cycles = asked_cycles(500);
  Crowd crowd(target());
  size_t descriptors = 0;
  for (int i = 0; i < kWarmUp + cycles; ++i) {
    if (i == kWarmUp) descriptors = open_descriptors();
    const auto client = crowd.endpoint(crowd.fabric.info());
    ASSERT_EQ(fi_connect(client.get(), crowd.listener.address().get(), "data", 4), 0);
    const InfoPtr request = crowd.listener.next_request();
    ASSERT_EQ(fi_reject(crowd.listener.pep(), request->handle, "no", 2), 0);
    ASSERT_EQ(crowd.eq.wait().err, FI_ECONNREFUSED) << "cycle " << i;
  }
  EXPECT_LE(open_descriptors(), descriptors + 2);
}

TEST_P(CmStorm, IdleConnectionsDoNotSlowDownAnActiveOne) {
  CONNECTED_ONLY();
  constexpr int kRounds = 2000;
  raise_descriptor_limit();
  Crowd crowd(target());
  Pair pair(crowd.fabric);
  // Processor time: other processes of the machine do not count.
  const auto time_rounds = [&] {
    Buffer buffer(crowd.fabric, 8);
    Context contexts[2];
    const clock_t start = clock();
    for (int i = 0; i < kRounds; ++i) {
      require_ok(pair.b().recv(buffer, 8, &contexts[0]), "fi_recv");
      require_ok(pair.a().send(buffer, 8, &contexts[1]), "fi_send");
      while (!pair.b().rx().read().ok()) continue;
      while (!pair.a().tx().read().ok()) continue;
    }
    return std::max<int64_t>((clock() - start) * 1000 / CLOCKS_PER_SEC, 1);
  };
  const int64_t alone = time_rounds();
  std::vector<Handle<fid_ep>> idle;
  for (int i = 0; i < 300; ++i) {
    idle.push_back(crowd.endpoint(crowd.fabric.info()));
    ASSERT_EQ(fi_connect(idle.back().get(), crowd.listener.address().get(), nullptr, 0), 0);
    const InfoPtr request = crowd.listener.next_request();
    idle.push_back(crowd.endpoint(request.get()));
    ASSERT_EQ(fi_accept(idle.back().get(), nullptr, 0), 0);
    for (int side = 0; side < 2; ++side) ASSERT_EQ(crowd.eq.wait().type, static_cast<int>(FI_CONNECTED));
  }
  EXPECT_LE(time_rounds(), 4 * alone + 50) << "ms for " << kRounds << " rounds; alone " << alone;
}

}  // namespace cm_storm
