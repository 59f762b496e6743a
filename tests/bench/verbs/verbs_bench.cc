// SPDX-License-Identifier: BSD-2-Clause
// verbs_bench: the workloads of fabric_bench over raw verbs (librdmacm and libibverbs), as the floor that a provider
// over verbs can reach.
#include "process/connect_report.h"
#include "process/message_workloads.h"
#include "verbs/rdma_node.h"
#include "verbs/verbs_link.h"
#include "verbs/verbs_rma.h"

namespace {

using namespace bench;

template <Role role, SendPolicy (*policy)(const Measurement&), void (*body)(VerbsLink&, const Measurement&)>
void run(const Measurement& m, Channel& channel) {
  RdmaNode node(m, role, channel);
  node.establish(m.connections);
  VerbsLink link(node, m.size, m.window, policy(m));
  body(link, m);
  node.leave(channel);
}

template <SendPolicy (*policy)(const Measurement&), void (*server)(VerbsLink&, const Measurement&),
          void (*client)(VerbsLink&, const Measurement&)>
constexpr Workload messages(const char* name) {
  return {name, run<Role::kServer, policy, server>, run<Role::kClient, policy, client>};
}

void connects_server(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kServer, channel);
  node.serve_short_connections(m.connections);
  channel.put(0);
}

void connects_client(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kClient, channel);
  const std::uint64_t start = now_ns();
  for (unsigned i = 0; i < m.connections; ++i) node.connect_and_close();
  channel.get();
  report_connect_rate(m.connections, start);
}

void storm_server(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kServer, channel);
  node.accept(1);  // so that what is set up once is not counted per connection
  const MemoryPerConnection memory;
  channel.put(0);
  node.accept(m.connections);
  channel.put(0);
  memory.report("server_private_kib", "server_heap_kib", m.connections);
  node.leave(channel);
}

void storm_client(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kClient, channel);
  node.connect(1, 1);
  const MemoryPerConnection memory;
  channel.get();
  const std::uint64_t start = now_ns();
  node.connect(m.connections, m.outstanding);
  channel.get();  // connected on the server's side too
  report_connect_rate(m.connections, start);
  memory.report("client_private_kib", "client_heap_kib", m.connections);
  memory.report_machine("machine_kib", m.connections);
  node.leave(channel);
}

constexpr Workload kWorkloads[] = {
    messages<lone_messages, answer_pings<VerbsLink>, send_pings<VerbsLink>>("pingpong"),
    messages<many_messages, take_stream<VerbsLink>, send_stream<VerbsLink>>("stream"),
    {"write", write_server, write_client},
    {"read", read_server, read_client},
    {"connects", connects_server, connects_client},
    {"storm", storm_server, storm_client},
};

}  // namespace

int main(int argc, char** argv) {
  return bench_main(argc, argv, kWorkloads);
}
