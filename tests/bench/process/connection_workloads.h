// SPDX-License-Identifier: BSD-2-Clause
// The costs of connections, over any code that makes them: one after the other, and many at once with their memory.
#pragma once

#include "process/connect_report.h"
#include "process/measurement.h"
#include "process/process_pair.h"
#include "process/turns.h"

namespace bench {

template <class Node>
void serve_connects(Node& node, const Measurement& m, Channel& channel) {
  in_turns(Role::kServer, m, channel, [&] {
    node.serve_short_connections(m.connections);
    channel.put(0);
  });
}

template <class Node>
void make_connects(Node& node, const Measurement& m, Channel& channel) {
  in_turns(Role::kClient, m, channel, [&] {
    const std::uint64_t start = now_ns();
    for (unsigned i = 0; i < m.connections; ++i) node.connect_and_close();
    channel.get();  // the server has seen each of them connect and close
    report_connect_rate(m.connections, start);
  });
}

template <class Node>
void serve_storm(Node& node, const Measurement& m, Channel& channel) {
  node.accept(1);  // so that one-time setup is not counted per connection
  const MemoryPerConnection memory;
  channel.put(0);
  node.accept(m.connections);
  channel.put(0);
  memory.report("server_private_kib", "server_heap_kib", m.connections);
  node.leave(channel);
}

template <class Node>
void make_storm(Node& node, const Measurement& m, Channel& channel) {
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

}  // namespace bench
