// SPDX-License-Identifier: BSD-2-Clause
// The parameters of ofi_rxm; see parameters.h.
#include "rxm/parameters.h"

#include <algorithm>

#include "objects/parameter_reader.h"
#include "rxm/provider.h"

namespace weft::rxm {
namespace {

constexpr int kMaxEagerLimit = 60 * 1024;  // a segment's size has 16 bits
constexpr int kLargestQueue = 1 << 20;

}  // namespace

void Parameters::define() {
  static_assert(kDefaultEagerLimit == 16384 && kDefaultQueueSize == 2048, "the help texts say so");
  static_assert(kDefaultUnexpectedBytes == 67'108'864 && kDefaultConnectTimeoutMs == 30'000);
  const fi_provider* rxm = &provider();
  fi_param_define(rxm, "buffer_size", FI_PARAM_INT,
                  "Messages of up to so many bytes travel eagerly; the same for all peers (default: 16384)");
  fi_param_define(rxm, "sar_limit", FI_PARAM_INT,
                  "Messages of up to so many bytes are cut to eager pieces, longer ones fetched by their receiver "
                  "(default: 8 times the buffer size)");
  fi_param_define(rxm, "tx_size", FI_PARAM_INT, "Default size of transmit queues (default: 2048)");
  fi_param_define(rxm, "rx_size", FI_PARAM_INT, "Default size of receive queues (default: 2048)");
  fi_param_define(rxm, "unexpected_bytes", FI_PARAM_INT,
                  "How much is kept of messages that no receive was posted for; then senders wait (default: 67108864)");
  fi_param_define(rxm, "connect_timeout", FI_PARAM_INT,
                  "Milliseconds after which a peer counts as unreachable (default: 30000)");
  fi_param_define(
      rxm, "idle_timeout", FI_PARAM_INT,
      "Milliseconds after which a connection is closed that nothing moves on, if both ends have it; 0: never "
      "(default: 0)");
  fi_param_define(rxm, "use_rndv_write", FI_PARAM_BOOL,
                  "Long messages that come over the connection are written by their sender, not read by their "
                  "receiver; peers on libfabric must have the same (default: no)");
  fi_param_define(rxm, "use_srx", FI_PARAM_BOOL,
                  "Buffers for packets are shared by all peers where the lower provider has shared receive queues, "
                  "not over tcp (default: yes)");
  fi_param_define(
      rxm, "direct_read", FI_PARAM_BOOL,
      "Long messages of a process of the same host are read out of its memory, without the connection, where "
      "the system lets us (default: yes)");
}

Parameters Parameters::read() {
  constexpr int kMaxInt = ParameterReader::kMaxInt;
  Parameters values;
  const ParameterReader parameter(provider());
  parameter.number("buffer_size", values.eager_limit, 64, kMaxEagerLimit);
  values.segment_limit = kMaxSegments * values.eager_limit;
  parameter.number("sar_limit", values.segment_limit, 0, kMaxInt);
  values.segment_limit = std::max(values.segment_limit, values.eager_limit);
  parameter.number("tx_size", values.tx_size, 1, kLargestQueue);
  parameter.number("rx_size", values.rx_size, 1, kLargestQueue);
  parameter.number("unexpected_bytes", values.unexpected_bytes, 0, kMaxInt);
  parameter.number("connect_timeout", values.connect_timeout_ms, 1, kMaxInt);
  parameter.number("idle_timeout", values.idle_timeout_ms, 0, kMaxInt);
  parameter.toggle("use_rndv_write", values.rendezvous_write);
  parameter.toggle("use_srx", values.shared_receives);
  parameter.toggle("direct_read", values.direct_read);
  return values;
}

}  // namespace weft::rxm
