// SPDX-License-Identifier: BSD-2-Clause
// Parameters of the verbs provider: environment variables FI_VERBS_... or lines of libfabric.conf; fi_verbs(7).
// docs/providers/verbs.md explains each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "objects/parameter_rows.h"
#include "verbs/device/limits.h"

namespace weft::verbs {

// The values of one fabric, read when it is opened. Invalid values are logged and replaced by the default.
struct Parameters : ConnectionParameters {
  // Devices and addresses that fi_getinfo offers.
  std::vector<std::string> interfaces;  // FI_VERBS_IFACE: names or prefixes; empty: all
  std::vector<std::string> devices;     // FI_VERBS_DEVICE_NAME: likewise
  int gid_index = -1;                   // FI_VERBS_GID_IDX: only the address of that GID; -1: all

  // Queues.
  std::size_t tx_size = kDefaultQueueSize;       // FI_VERBS_TX_SIZE, _RX_SIZE: default queue sizes
  std::size_t rx_size = kDefaultQueueSize;       //
  std::size_t tx_iov_limit = kDefaultIovLimit;   // FI_VERBS_TX_IOV_LIMIT, _RX_IOV_LIMIT
  std::size_t rx_iov_limit = kDefaultIovLimit;   //
  std::size_t inline_size = kDefaultInjectSize;  // FI_VERBS_INLINE_SIZE: bytes that are copied into the work request

  // Datagrams.
  int dgram_pkey = 0;  // FI_VERBS_DGRAM_PKEY: partition of FI_ADDR_IB_UD endpoints; 0: the port's first
  std::uint32_t dgram_qkey = 0x11111111;  // FI_VERBS_DGRAM_QKEY: equal at all FI_ADDR_IB_UD peers

  // Memory.
  bool fork_safe = false;  // FI_VERBS_FORK_SAFE: the parent keeps registered memory when it forks (ibv_fork_init)

  // Connections.
  int address_timeout_ms = 3'000;          // FI_VERBS_ADDRESS_TIMEOUT, _ROUTE_TIMEOUT: all tries to resolve the
  int route_timeout_ms = 0;                //   peer's address, the route to it; 0: the connect time-out only
  int resolve_timeout_ms = 2'000;          // FI_VERBS_RESOLVE_TIMEOUT: one try to resolve an address or a route
  int max_connecting = 128;                // FI_VERBS_MAX_CONNECTING: requests of a fabric on the wire at once
  std::uint8_t responder_resources = 255;  // FI_VERBS_RESPONDER_RESOURCES, _INITIATOR_DEPTH: reads and atomics
  std::uint8_t initiator_depth = 255;      //   served for the peer, outstanding at the peer; 255: the device's limit
  std::uint8_t retry_count = 6;            // FI_VERBS_RETRY_COUNT: transport retries, 0..7; Soft-RoCE: 7 is for ever
  std::uint8_t rnr_retry_count = 7;        // FI_VERBS_RNR_RETRY_COUNT: retries without a receive posted; 7: for ever
  std::uint8_t min_rnr_timer = 12;         // FI_VERBS_MIN_RNR_TIMER: code 0..31 of the peer's pause; 12: 0.64 ms
  bool flow_control = true;                // FI_VERBS_FLOW_CONTROL
  int type_of_service = -1;                // FI_VERBS_TOS: 0..255; -1: from fi_tx_attr::tclass
  int ack_timeout = -1;                    // FI_VERBS_ACK_TIMEOUT: code 0..31; -1: from the route
  int port_down_grace_ms = 3'000;          // FI_VERBS_PORT_DOWN_GRACE: then connections over a down port end

  // Defines all parameters; called once, when the provider is loaded.
  static void define();
  static Parameters read();
};

}  // namespace weft::verbs
