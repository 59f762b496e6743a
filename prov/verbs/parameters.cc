// SPDX-License-Identifier: BSD-2-Clause
// The verbs provider's parameters; see parameters.h.
#include "verbs/parameters.h"

#include "objects/parameter_reader.h"
#include "verbs/limits.h"
#include "verbs/provider.h"

namespace weft::verbs {
namespace {

constexpr int kMaxByte = 255;
constexpr int kMaxPkey = 0xffff;
constexpr int kMaxKeepalive = 24 * 60 * 60;
constexpr int kMaxQkey = 0x7fffffff;  // those beyond are the system's own

}  // namespace

void Parameters::define() {
  const fi_provider* verbs = &provider();
  fi_param_define(verbs, "iface", FI_PARAM_STRING,
                  "Network interfaces to use, separated by commas; each may be a prefix (default: all)");
  fi_param_define(verbs, "device_name", FI_PARAM_STRING,
                  "RDMA devices to use, separated by commas; each may be a prefix (default: all)");
  fi_param_define(verbs, "gid_idx", FI_PARAM_INT, "Use only the address that stands at this index of the GID table");
  fi_param_define(verbs, "tx_size", FI_PARAM_INT, "Default size of transmit queues (default: 126)");
  fi_param_define(verbs, "rx_size", FI_PARAM_INT, "Default size of receive queues (default: 126)");
  fi_param_define(verbs, "tx_iov_limit", FI_PARAM_INT, "Default number of buffers of one send (default: 4)");
  fi_param_define(verbs, "rx_iov_limit", FI_PARAM_INT, "Default number of buffers of one receive (default: 4)");
  fi_param_define(verbs, "inline_size", FI_PARAM_INT,
                  "Default number of bytes that leave with a work request (default: 64)");
  fi_param_define(verbs, "dgram_pkey", FI_PARAM_INT,
                  "Partition key of datagram endpoints that have no IP address; 0: the first of the port (default: 0)");
  fi_param_define(verbs, "dgram_qkey", FI_PARAM_INT,
                  "Queue key of datagram endpoints that have no IP address, and of their peers (default: 0x11111111)");
  fi_param_define(verbs, "connect_timeout", FI_PARAM_INT,
                  "Milliseconds that setting up a connection may take in all; 0: no limit (default: 30000)");
  fi_param_define(verbs, "resolve_timeout", FI_PARAM_INT,
                  "Milliseconds of one try to resolve an address or a route (default: 2000)");
  fi_param_define(verbs, "backlog", FI_PARAM_INT,
                  "Connection requests that may be pending at a passive endpoint (default: 4096)");
  fi_param_define(verbs, "max_connecting", FI_PARAM_INT,
                  "Connections of one fabric that may be in the making at once; others wait (default: 128)");
  fi_param_define(verbs, "responder_resources", FI_PARAM_INT,
                  "Reads and atomics of the peer served at once (default: as many as the device can)");
  fi_param_define(verbs, "initiator_depth", FI_PARAM_INT,
                  "Reads and atomics outstanding at the peer at once (default: as many as the device can)");
  fi_param_define(verbs, "retry_count", FI_PARAM_INT,
                  "How often a transfer is sent again when the peer is silent, 0 to 7 (default: 6)");
  fi_param_define(verbs, "rnr_retry_count", FI_PARAM_INT,
                  "How often a transfer is sent again when the peer has no receive posted, 0 to 7; 7: for ever "
                  "(default: 7)");
  fi_param_define(verbs, "min_rnr_timer", FI_PARAM_INT,
                  "Code 0 to 31 of the pause before that; 0 is the longest (default: 12, 0.64 ms)");
  fi_param_define(verbs, "fork_safe", FI_PARAM_BOOL,
                  "Keep registered memory usable when the process forks, on kernels older than 5.12; costs time and "
                  "memory at each registration (default: no)");
  fi_param_define(verbs, "flow_control", FI_PARAM_BOOL, "Tell the peer that there is flow control (default: yes)");
  fi_param_define(verbs, "tos", FI_PARAM_INT,
                  "Type of service of all connections, 0 to 255 (default: as the traffic class says)");
  fi_param_define(verbs, "ack_timeout", FI_PARAM_INT,
                  "Code 0 to 31 of the time after which a transfer is sent again (default: as the route says)");
  fi_param_define(verbs, "port_down_grace", FI_PARAM_INT,
                  "Milliseconds that a port may be down before its connections end (default: 3000)");
  fi_param_define(verbs, "keepalive", FI_PARAM_INT,
                  "Seconds after which a connection that sends nothing asks whether its peer is still there; 0: never "
                  "(default: 30)");
}

Parameters Parameters::read() {
  static_assert(kDefaultQueueSize == 126 && kDefaultInjectSize == 64 && kDefaultIovLimit == 4,
                "as the texts above say");
  Parameters values;
  const ParameterReader parameter(provider());
  parameter.names("iface", values.interfaces);
  parameter.names("device_name", values.devices);
  parameter.number("gid_idx", values.gid_index, 0, ParameterReader::kMaxInt);
  parameter.number("tx_size", values.tx_size, 1, kMaxQueueSize);
  parameter.number("rx_size", values.rx_size, 1, kMaxQueueSize);
  parameter.number("tx_iov_limit", values.tx_iov_limit, 1, kMaxIov);
  parameter.number("rx_iov_limit", values.rx_iov_limit, 1, kMaxIov);
  parameter.number("inline_size", values.inline_size, 0, kMaxInjectSize);
  parameter.number("dgram_pkey", values.dgram_pkey, 0, kMaxPkey);
  parameter.number("dgram_qkey", values.dgram_qkey, 0, kMaxQkey);
  parameter.number("connect_timeout", values.connect_timeout_ms, 0, ParameterReader::kMaxInt);
  parameter.number("resolve_timeout", values.resolve_timeout_ms, 1, ParameterReader::kMaxInt);
  parameter.number("backlog", values.backlog, 1, ParameterReader::kMaxInt);
  parameter.number("max_connecting", values.max_connecting, 1, ParameterReader::kMaxInt);
  parameter.number("responder_resources", values.responder_resources, 0, kMaxByte);
  parameter.number("initiator_depth", values.initiator_depth, 0, kMaxByte);
  parameter.number("retry_count", values.retry_count, 0, 7);
  parameter.number("rnr_retry_count", values.rnr_retry_count, 0, 7);
  parameter.number("min_rnr_timer", values.min_rnr_timer, 0, 31);
  parameter.toggle("fork_safe", values.fork_safe);
  parameter.toggle("flow_control", values.flow_control);
  parameter.number("tos", values.type_of_service, 0, kMaxByte);
  parameter.number("ack_timeout", values.ack_timeout, 0, 31);
  parameter.number("port_down_grace", values.port_down_grace_ms, 0, ParameterReader::kMaxInt);
  parameter.number("keepalive", values.keepalive_s, 0, kMaxKeepalive);
  return values;
}

}  // namespace weft::verbs
