// SPDX-License-Identifier: BSD-2-Clause
// The parameters of ofi_rxm: environment variables FI_OFI_RXM_... or lines of libfabric.conf; fi_rxm(7).
#pragma once

#include <cstddef>

#include "messages/unexpected_memory.h"
#include "objects/parameter_rows.h"
#include "rxm/limits.h"

namespace weft::rxm {

// Values in force for a fabric, read when it is opened. Wrong values are logged and replaced by the default.
struct Parameters {
  std::size_t eager_limit = kDefaultEagerLimit;  // FI_OFI_RXM_BUFFER_SIZE
  std::size_t segment_limit = SIZE_MAX;          // FI_OFI_RXM_SAR_LIMIT; SIZE_MAX: kMaxSegments times the eager limit
  std::size_t tx_size = kDefaultQueueSize;       // FI_OFI_RXM_TX_SIZE, _RX_SIZE
  std::size_t rx_size = kDefaultQueueSize;
  std::size_t unexpected_bytes = messages::quarter_of_memory();        // FI_OFI_RXM_UNEXPECTED_BYTES: of a domain
  int connect_timeout_ms = ConnectionParameters().connect_timeout_ms;  // FI_OFI_RXM_CONNECT_TIMEOUT, to the peer's host
  int answer_timeout_ms = ConnectionParameters().answer_timeout_ms;    // FI_OFI_RXM_ANSWER_TIMEOUT, of its application
  int start_timeout_ms = 5000;                                         // FI_OFI_RXM_START_TIMEOUT; 0: none
  int idle_timeout_ms = 0;                                             // FI_OFI_RXM_IDLE_TIMEOUT; 0: never
  bool rendezvous_write = false;                                       // FI_OFI_RXM_USE_RNDV_WRITE
  bool shared_receives = true;                                         // FI_OFI_RXM_USE_SRX

  // Called once, when the provider is loaded.
  static void define();
  static Parameters read();
};

}  // namespace weft::rxm
