// SPDX-License-Identifier: BSD-2-Clause
// Parameters of the udp provider: environment variables FI_UDP_... or lines of libfabric.conf; fi_udp(7).
#pragma once

#include <cstddef>
#include <string>

#include "udp/limits.h"

namespace weft::udp {

// Values in force for a fabric, read when it is opened. Wrong values are logged and replaced by the default.
struct Parameters {
  std::string interface;             // FI_UDP_IFACE: the only interface to use; empty: all
  int multicast_hops = 1;            // FI_UDP_MULTICAST_HOPS: routers that group messages may pass, plus one
  int receive_buffer = 1024 * 1024;  // FI_UDP_RECEIVE_BUFFER: bytes the kernel may store for a socket; 0: its default
  bool segmentation = true;          // FI_UDP_SEGMENTATION: bursts pass the kernel as one packet (GSO, GRO)
  std::size_t tx_size = kDefaultQueueSize;  // FI_UDP_TX_SIZE, _RX_SIZE: default queue sizes
  std::size_t rx_size = kDefaultQueueSize;

  // Declares them all; once, when the provider is loaded.
  static void define();
  static Parameters read();
};

}  // namespace weft::udp
