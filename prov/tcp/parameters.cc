// SPDX-License-Identifier: BSD-2-Clause
// The tcp provider's parameters; see parameters.h.
#include "tcp/parameters.h"

#include "objects/parameter_reader.h"
#include "tcp/limits.h"
#include "tcp/provider.h"

namespace weft::tcp {
namespace {

constexpr int kMaxPort = 65535;
constexpr int kMaxQueueSize = 1 << 20;
constexpr int kMaxKeepalive = 32'767;  // the system's own limit

}  // namespace

void Parameters::define() {
  const fi_provider* tcp = &provider();
  fi_param_define(tcp, "iface", FI_PARAM_STRING, "The only network interface to use, e.g. eth0 (default: all)");
  fi_param_define(tcp, "port_low_range", FI_PARAM_INT,
                  "Lowest port of passive endpoints that ask for none (default: the system chooses)");
  fi_param_define(tcp, "port_high_range", FI_PARAM_INT, "Highest port of such endpoints");
  fi_param_define(tcp, "nodelay", FI_PARAM_BOOL, "Send small messages at once, TCP_NODELAY (default: yes)");
  fi_param_define(tcp, "keepalive", FI_PARAM_INT,
                  "Seconds of silence after which a connection asks whether its peer is there; 0: never (default: 30)");
  fi_param_define(tcp, "connect_timeout", FI_PARAM_INT,
                  "Milliseconds that setting up a connection may take in all; 0: no limit (default: 30000)");
  fi_param_define(tcp, "idle_timeout", FI_PARAM_INT,
                  "Milliseconds after which reliable datagrams close a connection that nothing moves on, if both ends "
                  "have it; 0: never (default: 0)");
  fi_param_define(tcp, "backlog", FI_PARAM_INT,
                  "Connection requests that may be pending at a passive endpoint (default: 4096)");
  fi_param_define(tcp, "tx_size", FI_PARAM_INT, "Default size of transmit queues (default: 256)");
  fi_param_define(tcp, "rx_size", FI_PARAM_INT, "Default size of receive queues (default: 256)");
}

Parameters Parameters::read() {
  static_assert(kDefaultQueueSize == 256, "the help texts above and the defaults in parameters.h say so");
  Parameters values;
  const ParameterReader parameter(provider());
  parameter.text("iface", values.interface);
  parameter.number("port_low_range", values.port_low, 0, kMaxPort);
  parameter.number("port_high_range", values.port_high, 0, kMaxPort);
  if (values.port_high < values.port_low) {
    FI_WARN(&provider(), FI_LOG_CORE, "FI_TCP_PORT_HIGH_RANGE is below FI_TCP_PORT_LOW_RANGE; both are ignored\n");
    values.port_low = values.port_high = 0;
  }
  parameter.toggle("nodelay", values.nodelay);
  parameter.number("keepalive", values.keepalive_s, 0, kMaxKeepalive);
  parameter.number("connect_timeout", values.connect_timeout_ms, 0, ParameterReader::kMaxInt);
  parameter.number("idle_timeout", values.idle_timeout_ms, 0, ParameterReader::kMaxInt);
  parameter.number("backlog", values.backlog, 1, ParameterReader::kMaxInt);
  parameter.number("tx_size", values.tx_size, 1, kMaxQueueSize);
  parameter.number("rx_size", values.rx_size, 1, kMaxQueueSize);
  return values;
}

}  // namespace weft::tcp
