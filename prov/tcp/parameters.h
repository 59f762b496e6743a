// SPDX-License-Identifier: BSD-2-Clause
// What an administrator may set for the tcp provider, as environment variables FI_TCP_... or in libfabric.conf;
// fi_tcp(7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::tcp {

// Values in force for a fabric, read when it is opened. Wrong values are logged and replaced by the default.
struct Parameters {
  std::string interface;        // FI_TCP_IFACE: the only interface to use; empty: all
  std::uint16_t port_low = 0;   // FI_TCP_PORT_LOW_RANGE, _HIGH_RANGE: ports of passive endpoints that name none;
  std::uint16_t port_high = 0;  //   0: the system chooses
  bool nodelay = true;          // FI_TCP_NODELAY
  int keepalive_s = 30;         // FI_TCP_KEEPALIVE: silence after which the peer is asked whether it is there; 0: never
  int connect_timeout_ms = 30'000;  // FI_TCP_CONNECT_TIMEOUT: of the whole connection set-up; 0: none
  int idle_timeout_ms = 0;          // FI_TCP_IDLE_TIMEOUT: then reliable datagrams close a connection; 0: never
  int backlog = 4096;               // FI_TCP_BACKLOG: requests that may be pending at a passive endpoint
  std::size_t tx_size = 256;        // FI_TCP_TX_SIZE, _RX_SIZE: default queue sizes
  std::size_t rx_size = 256;

  // Declares them all; once, when the provider is loaded.
  static void define();
  static Parameters read();
};

}  // namespace weft::tcp
