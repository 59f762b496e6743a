// SPDX-License-Identifier: BSD-2-Clause
// fabric_bench: measures one libfabric.so.1, given by path, through the public API alone. sockets/socket_bench.cc has
// the same workloads over plain sockets.
#include "fabric/connected_node.h"
#include "fabric/datagram_node.h"
#include "fabric/fabric_connects.h"
#include "fabric/messenger.h"
#include "process/flood_workload.h"
#include "process/join_workload.h"
#include "process/message_workloads.h"
#include "process/one_sided.h"
#include "process/turns.h"

namespace {

using namespace bench;

template <Role role, Wait wait, void (*body)(Messenger&, const Measurement&)>
void run_datagrams(const Measurement& m, Channel& channel) {
  DatagramNode node(m, wait, channel);
  Messenger messenger(node, node.endpoint(), m.size, m.window, node.peer());
  node.meet(channel);  // nothing is sent before there are receives
  in_turns(role, m, channel, [&] { body(messenger, m); });
  node.leave(channel);
}

template <Role role, Wait wait, void (*body)(Messenger&, const Measurement&)>
void run(const Measurement& m, Channel& channel) {
  if (m.reliable) return run_datagrams<role, wait, body>(m, channel);
  ConnectedNode node(m, role, wait, channel);
  node.establish(m.connections);
  Messenger messenger(node, node.endpoint(0), m.size, m.window);
  in_turns(role, m, channel, [&] { body(messenger, m); });
  node.leave(channel);
}

template <Wait wait, void (*server)(Messenger&, const Measurement&), void (*client)(Messenger&, const Measurement&)>
constexpr Workload messages(const char* name) {
  return {name, run<Role::kServer, wait, server>, run<Role::kClient, wait, client>};
}

template <void (*body)(Messenger&, const Measurement&, Channel&)>
void run_flood(const Measurement& m, Channel& channel) {
  DatagramNode node(m, Wait::kSpin, channel);
  Messenger messenger(node, node.endpoint(), m.size, m.window, node.peer());
  node.meet(channel);
  body(messenger, m, channel);
  node.leave(channel);
}

template <Wait wait, void (*server)(Messenger&, const Measurement&), void (*client)(Messenger&, const Measurement&)>
constexpr Workload datagrams(const char* name) {
  return {name, run_datagrams<Role::kServer, wait, server>, run_datagrams<Role::kClient, wait, client>};
}

constexpr Workload kWorkloads[] = {
    messages<Wait::kSpin, answer_pings<Messenger>, send_pings<Messenger>>("pingpong"),
    messages<Wait::kBlock, answer_pings<Messenger>, send_pings<Messenger>>("wakeup"),
    messages<Wait::kSpin, take_stream<Messenger>, send_stream<Messenger>>("stream"),
    messages<Wait::kSpin, answer_pings_take_stream<Messenger>, send_pings_send_stream<Messenger>>("growth"),
    {"write", write_server, write_client},
    {"read", read_server, read_client},
    {"connects", connects_server, connects_client},
    {"storm", storm_server, storm_client},
    {"idle", idle_server, idle_client},
    datagrams<Wait::kSpin, answer_pings<Messenger>, send_pings<Messenger>>("dgram-pingpong"),
    datagrams<Wait::kSpin, take_stream<Messenger>, send_stream<Messenger>>("dgram-stream"),
    {kSelfWorkload, fabric_self_server, run_datagrams<Role::kClient, Wait::kSpin, send_to_self<Messenger>>},
    {"dgram-flood", run_flood<take_flood<Messenger>>, run_flood<send_flood<Messenger>>},
    {kJoinsWorkload, fabric_joins_server, fabric_joins_client},
};

}  // namespace

int main(int argc, char** argv) {
  return bench_main(argc, argv, kWorkloads);
}
