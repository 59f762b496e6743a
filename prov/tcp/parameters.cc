// SPDX-License-Identifier: BSD-2-Clause
// The tcp provider's parameters; see parameters.h.
#include "tcp/parameters.h"

#include "messages/unexpected_memory.h"
#include "objects/attributes.h"
#include "tcp/logging.h"

namespace weft::tcp {
namespace {

using P = Parameters;
constexpr int kMaxPort = 65535;
constexpr int kMaxKeepalive = 32'767;  // the system's own limit

constexpr ParameterRow<P> kRows[] = {
    {"iface", &P::interface, "The only network interface to use, e.g. eth0"},
    {"port_low_range", &P::port_low, "Lowest port of passive endpoints that name none", 0, kMaxPort, "the system's"},
    {"port_high_range", &P::port_high, "Highest port of passive endpoints that name none", 0, kMaxPort, "the system's"},
    {"nodelay", &P::nodelay, "Send small messages at once, TCP_NODELAY"},
    {"shared_memory", &P::shared_memory, "Exchange messages with peers of this host through shared memory"},
    {"keepalive", &P::keepalive_s, "Seconds of silence after which a connection probes its peer; 0: never", 0,
     kMaxKeepalive},
    {"connect_timeout", &P::connect_timeout_ms,
     "Milliseconds that a request to connect may take to the peer's host; 0: no limit"},
    {"answer_timeout", &P::answer_timeout_ms,
     "Milliseconds that the peer's application may take to answer a request; 0: no limit"},
    {"start_timeout", &P::start_timeout_ms,
     "Milliseconds in which reliable datagrams try again to reach a peer that has not started yet; 0: fail at once"},
    {"idle_timeout", &P::idle_timeout_ms,
     "Milliseconds after which reliable datagrams close an idle connection, if both ends support it; 0: never"},
    {"backlog", &P::backlog, "Connection requests that may be pending at a passive endpoint", 1},
    {"tx_size", &P::tx_size, "Default size of transmit queues", 1, kLongestSoftwareQueue},
    {"rx_size", &P::rx_size, "Default size of receive queues", 1, kLongestSoftwareQueue},
    {"unexpected_bytes", &P::unexpected_bytes, messages::kUnexpectedBytesHelp, 0, kMaxBytes, "1/4 of the memory"},
};

}  // namespace

void Parameters::define() {
  define_parameters(&provider(), kRows);
}

Parameters Parameters::read() {
  Parameters values = read_parameters(&provider(), kRows);
  if (values.port_high < values.port_low) {
    FI_WARN(&provider(), FI_LOG_CORE, "FI_TCP_PORT_HIGH_RANGE is below FI_TCP_PORT_LOW_RANGE; both are ignored\n");
    values.port_low = values.port_high = 0;
  }
  return values;
}

}  // namespace weft::tcp
