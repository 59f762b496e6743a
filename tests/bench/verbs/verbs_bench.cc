// SPDX-License-Identifier: BSD-2-Clause
// verbs_bench: the workloads of fabric_bench over raw verbs (librdmacm and libibverbs), as the floor that a provider
// over verbs can reach.
#include "process/connection_workloads.h"
#include "process/join_workload.h"
#include "process/message_workloads.h"
#include "process/one_sided.h"
#include "process/turns.h"
#include "verbs/rdma_node.h"
#include "verbs/ud_node.h"
#include "verbs/verbs_link.h"

namespace {

using namespace bench;

template <Role role, SendPolicy (*policy)(const Measurement&), void (*body)(VerbsLink&, const Measurement&)>
void run(const Measurement& m, Channel& channel) {
  RdmaNode node(m, role, channel);
  node.establish(m.connections);
  VerbsLink link(node, m.size, m.window, policy(m));
  in_turns(role, m, channel, [&] { body(link, m); });
  node.leave(channel);
}

template <SendPolicy (*policy)(const Measurement&), void (*server)(VerbsLink&, const Measurement&),
          void (*client)(VerbsLink&, const Measurement&)>
constexpr Workload messages(const char* name) {
  return {name, run<Role::kServer, policy, server>, run<Role::kClient, policy, client>};
}

void connects_server(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kServer, channel);
  serve_connects(node, m, channel);
}

void connects_client(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kClient, channel);
  make_connects(node, m, channel);
}

void storm_server(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kServer, channel);
  serve_storm(node, m, channel);
}

void storm_client(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kClient, channel);
  make_storm(node, m, channel);
}

template <Role role, SendPolicy (*policy)(const Measurement&), void (*body)(VerbsLink&, const Measurement&)>
void run_datagrams(const Measurement& m, Channel& channel) {
  UdNode node(m, channel);
  VerbsLink link(node, m.size, m.window, policy(m));
  node.meet(channel);  // nothing is sent before there are receives
  in_turns(role, m, channel, [&] { body(link, m); });
  node.meet(channel);
}

template <SendPolicy (*policy)(const Measurement&), void (*server)(VerbsLink&, const Measurement&),
          void (*client)(VerbsLink&, const Measurement&)>
constexpr Workload datagrams(const char* name) {
  return {name, run_datagrams<Role::kServer, policy, server>, run_datagrams<Role::kClient, policy, client>};
}

void joins_server(const Measurement& m, Channel& channel) {
  UdNode node(m, channel);
  node.meet(channel);
}

void self_server(const Measurement& m, Channel& channel) {
  UdNode node(m, channel);
  node.meet(channel);
  node.meet(channel);
}

void joins_client(const Measurement& m, Channel& channel) {
  UdNode node(m, channel);
  make_joins(node, m);
  node.meet(channel);
}

constexpr Workload kWorkloads[] = {
    messages<lone_messages, answer_pings<VerbsLink>, send_pings<VerbsLink>>("pingpong"),
    messages<many_messages, take_stream<VerbsLink>, send_stream<VerbsLink>>("stream"),
    {"write", write_server, write_client},
    {"read", read_server, read_client},
    {"connects", connects_server, connects_client},
    {"storm", storm_server, storm_client},
    datagrams<lone_messages, answer_pings<VerbsLink>, send_pings<VerbsLink>>("dgram-pingpong"),
    datagrams<many_messages, take_stream<VerbsLink>, send_stream<VerbsLink>>("dgram-stream"),
    {kSelfWorkload, self_server, run_datagrams<Role::kClient, many_messages, send_to_self<VerbsLink>>},
    {kJoinsWorkload, joins_server, joins_client},
};

}  // namespace

int main(int argc, char** argv) {
  return bench_main(argc, argv, kWorkloads);
}
