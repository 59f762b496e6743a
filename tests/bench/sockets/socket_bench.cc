// SPDX-License-Identifier: BSD-2-Clause
// socket_bench: the workloads of fabric_bench over plain TCP and UDP sockets, as the floor that the providers over them
// can reach.
#include <vector>

#include "process/connection_workloads.h"
#include "process/flood_workload.h"
#include "process/join_workload.h"
#include "process/message_workloads.h"
#include "process/process_pair.h"
#include "process/turns.h"
#include "sockets/datagram_link.h"
#include "sockets/socket_link.h"
#include "sockets/socket_node.h"

namespace {

using namespace bench;

constexpr std::size_t kRequestSize = 8;       // payload of a request in the read workload
constexpr std::size_t kConnectsAtOnce = 256;  // while setting up

template <Role role, Wait wait, void (*body)(SocketLink&, const Measurement&)>
void run(const Measurement& m, Channel& channel) {
  SocketNode node(role, wait, channel);
  const std::uint64_t start = now_ns();
  node.establish(m.connections, kConnectsAtOnce);
  if (role == Role::kClient) report("connect_us", static_cast<double>(now_ns() - start) / 1e3 / m.connections);
  SocketLink link(node, m.size, m.window);
  in_turns(role, m, channel, [&] { body(link, m); });
  channel.put(0);
  channel.get();
}

template <Wait wait, void (*server)(SocketLink&, const Measurement&), void (*client)(SocketLink&, const Measurement&)>
constexpr Workload messages(const char* name) {
  return {name, run<Role::kServer, wait, server>, run<Role::kClient, wait, client>};
}

// A remote read without a fabric: the client keeps a window of outstanding requests, the server answers each with data.
void read_server(const Measurement& m, Channel& channel) {
  SocketNode node(Role::kServer, Wait::kSpin, channel);
  node.establish(1, 1);
  SocketLink requests(node, kRequestSize, m.window);
  SocketLink data(node, m.size, m.window);
  for (std::uint64_t word = 0; (word & kLast) == 0;) {
    word = requests.receive();
    data.send_alone(word);
  }
  channel.put(0);
  channel.get();
}

void read_client(const Measurement& m, Channel& channel) {
  SocketNode node(Role::kClient, Wait::kSpin, channel);
  node.establish(1, 1);
  SocketLink requests(node, kRequestSize, m.window);
  SocketLink data(node, m.size, m.window);
  const std::uint64_t start = now_ns();
  const std::uint64_t end = deadline_ns(m);
  std::uint64_t sent = 0;
  for (; sent < m.window - 1; ++sent) requests.send(sent);
  std::uint64_t taken = 0;
  const auto take = [&] {
    if ((data.receive() & ~kLast) != taken++) fail("an answer is missing or out of place");
  };
  for (; now_ns() < end; take()) requests.send_alone(sent++);
  requests.send_alone(sent++ | kLast);
  while (taken < sent) take();
  report("bandwidth_gbs", static_cast<double>(taken * m.size) / static_cast<double>(now_ns() - start));
  channel.put(0);
  channel.get();
}

void connects_server(const Measurement& m, Channel& channel) {
  SocketNode node(Role::kServer, Wait::kSpin, channel);
  serve_connects(node, m, channel);
}

void connects_client(const Measurement& m, Channel& channel) {
  SocketNode node(Role::kClient, Wait::kSpin, channel);
  make_connects(node, m, channel);
}

void storm_server(const Measurement& m, Channel& channel) {
  SocketNode node(Role::kServer, Wait::kSpin, channel);
  node.establish(m.connections, m.outstanding);
  channel.put(0);
  channel.get();
}

void storm_client(const Measurement& m, Channel& channel) {
  SocketNode node(Role::kClient, Wait::kSpin, channel);
  const std::uint64_t start = now_ns();
  node.establish(m.connections, m.outstanding);
  channel.get();
  report_connect_rate(m.connections, start);
  channel.put(0);
}

template <Role role, void (*body)(DatagramLink&, const Measurement&)>
void run_datagrams(const Measurement& m, Channel& channel) {
  DatagramLink link(m, channel);
  in_turns(role, m, channel, [&] { body(link, m); });
  channel.put(0);
  channel.get();
}

template <void (*body)(DatagramLink&, const Measurement&, Channel&)>
void run_flood(const Measurement& m, Channel& channel) {
  DatagramLink link(m, channel);
  body(link, m, channel);
}

void stand_by(DatagramLink&, const Measurement&) {}

template <void (*server)(DatagramLink&, const Measurement&), void (*client)(DatagramLink&, const Measurement&)>
constexpr Workload datagrams(const char* name) {
  return {name, run_datagrams<Role::kServer, server>, run_datagrams<Role::kClient, client>};
}

constexpr Workload kWorkloads[] = {
    messages<Wait::kSpin, answer_pings<SocketLink>, send_pings<SocketLink>>("pingpong"),
    messages<Wait::kBlock, answer_pings<SocketLink>, send_pings<SocketLink>>("wakeup"),
    messages<Wait::kSpin, take_stream<SocketLink>, send_stream<SocketLink>>("stream"),
    messages<Wait::kSpin, answer_pings_take_stream<SocketLink>, send_pings_send_stream<SocketLink>>("growth"),
    messages<Wait::kSpin, take_stream<SocketLink>, send_stream<SocketLink>>("write"),
    {"read", read_server, read_client},
    {"connects", connects_server, connects_client},
    {"storm", storm_server, storm_client},
    datagrams<answer_pings<DatagramLink>, send_pings<DatagramLink>>("dgram-pingpong"),
    datagrams<take_stream<DatagramLink>, send_stream<DatagramLink>>("dgram-stream"),
    {"dgram-flood", run_flood<take_flood<DatagramLink>>, run_flood<send_flood<DatagramLink>>},
    datagrams<stand_by, make_joins<DatagramLink>>(kJoinsWorkload),
};

}  // namespace

int main(int argc, char** argv) {
  return bench_main(argc, argv, kWorkloads);
}
