// SPDX-License-Identifier: BSD-2-Clause
// Governed by fi_cm(3); the idle waits by fi_eq(3) and fi_cq(3).
#include "fabric/fabric_connects.h"

#include "fabric/connected_node.h"
#include "process/connection_workloads.h"

namespace bench {
namespace {

// Share of one processor, in percent, that `wait` uses until it gives up.
template <class WaitCall>
void report_idle_cpu(const char* metric, WaitCall wait) {
  const std::uint64_t start = now_ns();
  const std::uint64_t used = cpu_time_ns();
  if (const ssize_t result = wait(); result != -FI_EAGAIN) fail("an idle wait did not end with -FI_EAGAIN");
  const auto elapsed = static_cast<double>(now_ns() - start);
  report(metric, 100.0 * static_cast<double>(cpu_time_ns() - used) / elapsed);
}

}  // namespace

void connects_server(const Measurement& m, Channel& channel) {
  ConnectedNode node(m, Role::kServer, Wait::kSpin, channel);
  serve_connects(node, m, channel);
}

void connects_client(const Measurement& m, Channel& channel) {
  ConnectedNode node(m, Role::kClient, Wait::kSpin, channel);
  make_connects(node, m, channel);
}

void storm_server(const Measurement& m, Channel& channel) {
  ConnectedNode node(m, Role::kServer, Wait::kSpin, channel);
  serve_storm(node, m, channel);
}

void storm_client(const Measurement& m, Channel& channel) {
  ConnectedNode node(m, Role::kClient, Wait::kSpin, channel);
  make_storm(node, m, channel);
}

void idle_server(const Measurement& m, Channel& channel) {
  ConnectedNode node(m, Role::kServer, Wait::kBlock, channel);
  node.establish(m.connections);
  channel.get();  // asleep as well, without driving progress
  node.leave(channel);
}

void idle_client(const Measurement& m, Channel& channel) {
  ConnectedNode node(m, Role::kClient, Wait::kBlock, channel);
  node.establish(m.connections);
  const int timeout_ms = static_cast<int>(m.seconds * 1000);
  report_idle_cpu("cq_sread_cpu_percent", [&] {
    fi_cq_entry entry{};
    return fi_cq_sread(node.cq(), &entry, 1, nullptr, timeout_ms);
  });
  report_idle_cpu("eq_sread_cpu_percent", [&] {
    std::uint32_t event = 0;
    fi_eq_cm_entry entry{};
    return fi_eq_sread(node.eq(), &event, &entry, sizeof entry, timeout_ms, 0);
  });
  channel.put(0);
  node.leave(channel);
}

}  // namespace bench
