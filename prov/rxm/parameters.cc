// SPDX-License-Identifier: BSD-2-Clause
// The parameters of ofi_rxm; see parameters.h.
#include "rxm/parameters.h"

#include <algorithm>

#include "messages/unexpected_memory.h"
#include "objects/attributes.h"
#include "rxm/logging.h"

namespace weft::rxm {
namespace {

using P = Parameters;
constexpr int kMaxEagerLimit = 60 * 1024;  // a segment's size has 16 bits

constexpr ParameterRow<P> kRows[] = {
    {"buffer_size", &P::eager_limit, "Messages of up to this many bytes are sent eagerly; the same for all peers", 64,
     kMaxEagerLimit},
    {"sar_limit", &P::segment_limit,
     "Messages of up to this many bytes are cut into eager segments, longer ones fetched by their receiver", 0,
     kMaxBytes, "8 times the buffer size"},
    {"tx_size", &P::tx_size, "Default size of transmit queues", 1, kLongestSoftwareQueue},
    {"rx_size", &P::rx_size, "Default size of receive queues", 1, kLongestSoftwareQueue},
    {"unexpected_bytes", &P::unexpected_bytes, messages::kUnexpectedBytesHelp, 0, kMaxBytes, "1/4 of the memory"},
    {"connect_timeout", &P::connect_timeout_ms, "Milliseconds that a request to connect may take to the peer's host",
     1},
    {"answer_timeout", &P::answer_timeout_ms, "Milliseconds that the peer's application may take to answer a request",
     1},
    {"start_timeout", &P::start_timeout_ms,
     "Milliseconds in which a peer that has not started yet is tried again; 0: its operations fail at once"},
    {"idle_timeout", &P::idle_timeout_ms,
     "Milliseconds after which an idle connection is closed, if both ends have this set; 0: never"},
    {"use_rndv_write", &P::rendezvous_write,
     "Long messages over the connection are written by their sender, not read by their receiver; peers on libfabric "
     "must have the same value"},
    {"use_srx", &P::shared_receives,
     "All peers share the buffers for packets if the lower provider has shared receive queues; not over tcp"},
};
static_assert(kMaxSegments == 8, "as the default of sar_limit says");

}  // namespace

void Parameters::define() {
  define_parameters(&provider(), kRows);
}

Parameters Parameters::read() {
  Parameters values = read_parameters(&provider(), kRows);
  if (values.segment_limit == SIZE_MAX) values.segment_limit = kMaxSegments * values.eager_limit;
  values.segment_limit = std::max(values.segment_limit, values.eager_limit);
  return values;
}

}  // namespace weft::rxm
