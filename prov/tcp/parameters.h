// SPDX-License-Identifier: BSD-2-Clause
// Parameters of the tcp provider, set as environment variables FI_TCP_... or in libfabric.conf; fi_tcp(7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "messages/unexpected_memory.h"
#include "objects/parameter_rows.h"
#include "tcp/limits.h"

namespace weft::tcp {

// Values in force for a fabric, read when it is opened. Wrong values are logged and replaced by the default.
struct Parameters : ConnectionParameters {
  std::string interface;        // FI_TCP_IFACE: the only interface to use; empty: all
  std::uint16_t port_low = 0;   // FI_TCP_PORT_LOW_RANGE, _HIGH_RANGE: ports of passive endpoints that name none;
  std::uint16_t port_high = 0;  //   0: the system chooses
  bool nodelay = true;          // FI_TCP_NODELAY
  bool shared_memory = true;    // FI_TCP_SHARED_MEMORY: with peers of this host
  int start_timeout_ms = 5000;  // FI_TCP_START_TIMEOUT: for reliable datagrams to peers that start later; 0: none
  int idle_timeout_ms = 0;      // FI_TCP_IDLE_TIMEOUT: reliable datagrams close idle connections; 0: never
  std::size_t tx_size = kDefaultQueueSize;  // FI_TCP_TX_SIZE, _RX_SIZE: default queue sizes
  std::size_t rx_size = kDefaultQueueSize;
  std::size_t unexpected_bytes = messages::quarter_of_memory();  // FI_TCP_UNEXPECTED_BYTES: of a domain

  // Declares all of them; called once, when the provider is loaded.
  static void define();
  static Parameters read();
};

}  // namespace weft::tcp
