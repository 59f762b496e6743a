// SPDX-License-Identifier: BSD-2-Clause
// The verbs provider's parameters; see parameters.h.
#include "verbs/device/parameters.h"

#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

using P = Parameters;
constexpr int kMaxByte = 255;
constexpr int kMaxPkey = 0xffff;
constexpr int kMaxKeepalive = 24 * 60 * 60;
constexpr int kMaxQkey = 0x7fffffff;  // keys above are reserved for the system

constexpr ParameterRow<P> kRows[] = {
    {"iface", &P::interfaces, "Network interfaces to use, separated by commas; each may be a prefix"},
    {"device_name", &P::devices, "RDMA devices to use, separated by commas; each may be a prefix"},
    {"gid_idx", &P::gid_index, "Use only the address at this index of the GID table", 0, kMaxInt, "all"},
    {"tx_size", &P::tx_size, "Default size of transmit queues", 1, kMaxQueueSize},
    {"rx_size", &P::rx_size, "Default size of receive queues", 1, kMaxQueueSize},
    {"tx_iov_limit", &P::tx_iov_limit, "Default number of buffers of one send", 1, kMaxIov},
    {"rx_iov_limit", &P::rx_iov_limit, "Default number of buffers of one receive", 1, kMaxIov},
    {"inline_size", &P::inline_size, "Default number of bytes that are copied into a work request", 0, kMaxInjectSize},
    {"dgram_pkey", &P::dgram_pkey,
     "Partition key of datagram endpoints that have no IP address; 0: the first of the port", 0, kMaxPkey},
    {"dgram_qkey", &P::dgram_qkey, "Queue key of datagram endpoints that have no IP address and of their peers", 0,
     kMaxQkey},
    {"connect_timeout", &P::connect_timeout_ms,
     "Milliseconds that finding the peer may take until a request is sent, all tries together; 0: no limit"},
    {"answer_timeout", &P::answer_timeout_ms,
     "Milliseconds that the peer's application may take to answer a request; 0: no limit"},
    {"address_timeout", &P::address_timeout_ms,
     "Milliseconds in which the peer's address must be resolved, all tries together; 0: as long as connect_timeout"},
    {"route_timeout", &P::route_timeout_ms,
     "Milliseconds in which the route to the peer must be resolved, all tries together; 0: as long as connect_timeout"},
    {"resolve_timeout", &P::resolve_timeout_ms, "Milliseconds of one attempt to resolve an address or a route", 1},
    {"backlog", &P::backlog, "Connection requests that may be pending at a passive endpoint", 1},
    {"max_connecting", &P::max_connecting, "Connection attempts of one fabric that may run at once; others wait", 1},
    {"responder_resources", &P::responder_resources, "Reads and atomics of the peer served at once", 0, kMaxByte,
     "the device's"},
    {"initiator_depth", &P::initiator_depth, "Reads and atomics outstanding at the peer at once", 0, kMaxByte,
     "the device's"},
    {"retry_count", &P::retry_count, "Retries of a transfer that the peer does not acknowledge, 0 to 7", 0, 7},
    {"rnr_retry_count", &P::rnr_retry_count,
     "Retries of a transfer while the peer has no receive posted, 0 to 7; 7: for ever", 0, 7},
    {"min_rnr_timer", &P::min_rnr_timer,
     "Code 0 to 31 of the pause before a retry while the peer has no receive posted; 12: 0.64 ms, 0: 655 ms", 0, 31},
    {"fork_safe", &P::fork_safe,
     "Keep registered memory usable when the process forks, on kernels older than 5.12; costs time and memory at each "
     "registration"},
    {"flow_control", &P::flow_control, "Report flow control to the peer"},
    {"tos", &P::type_of_service, "Type of service of all connections, 0 to 255", 0, kMaxByte, "the traffic class"},
    {"ack_timeout", &P::ack_timeout, "Code 0 to 31 of the time before a transfer is retried", 0, 31, "the route's"},
    {"port_down_grace", &P::port_down_grace_ms, "Milliseconds that a port may be down before its connections end"},
    {"keepalive", &P::keepalive_s, "Seconds after which a connection that sends nothing probes its peer; 0: never", 0,
     kMaxKeepalive},
};

}  // namespace

void Parameters::define() {
  define_parameters(&provider(), kRows);
}

Parameters Parameters::read() {
  return read_parameters(&provider(), kRows);
}

}  // namespace weft::verbs
