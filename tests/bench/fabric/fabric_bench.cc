// SPDX-License-Identifier: BSD-2-Clause
// fabric_bench: measures one libfabric.so.1, given by path, through the public API alone. sockets/socket_bench.cc has
// the same workloads over plain sockets.
#include "fabric/fabric_connects.h"
#include "fabric/messenger.h"
#include "process/message_workloads.h"
#include "process/one_sided.h"

namespace {

using namespace bench;

template <Role role, Wait wait, void (*body)(Messenger&, const Measurement&)>
void run(const Measurement& m, Channel& channel) {
  FabricNode node(m, role, wait, channel);
  node.establish(m.connections);
  Messenger messenger(node, node.endpoint(0), m.size, m.window);
  body(messenger, m);
  node.leave(channel);
}

template <Wait wait, void (*server)(Messenger&, const Measurement&), void (*client)(Messenger&, const Measurement&)>
constexpr Workload messages(const char* name) {
  return {name, run<Role::kServer, wait, server>, run<Role::kClient, wait, client>};
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
};

}  // namespace

int main(int argc, char** argv) {
  return bench_main(argc, argv, kWorkloads);
}
