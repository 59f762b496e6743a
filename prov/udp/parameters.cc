// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's parameters; see parameters.h.
#include "udp/parameters.h"

#include "objects/parameter_reader.h"
#include "udp/provider.h"

namespace weft::udp {
namespace {

constexpr int kMaxHops = 255;
constexpr int kMaxBuffer = 1 << 30;
constexpr int kLargestQueue = 1 << 20;

}  // namespace

void Parameters::define() {
  static_assert(kDefaultQueueSize == 1024, "the help texts say so");
  const fi_provider* udp = &provider();
  fi_param_define(udp, "iface", FI_PARAM_STRING, "The only network interface to use, e.g. eth0 (default: all)");
  fi_param_define(udp, "multicast_hops", FI_PARAM_INT,
                  "How far multicast messages travel: 1 stays in the local network (default: 1)");
  fi_param_define(
      udp, "receive_buffer", FI_PARAM_INT,
      "Bytes of datagrams that the kernel keeps for an endpoint; 0: the system's default (default: 1048576)");
  fi_param_define(udp, "segmentation", FI_PARAM_BOOL,
                  "Bursts of equal messages pass the kernel as one packet, GSO and GRO (default: yes)");
  fi_param_define(udp, "tx_size", FI_PARAM_INT, "Default size of transmit queues (default: 1024)");
  fi_param_define(udp, "rx_size", FI_PARAM_INT, "Default size of receive queues (default: 1024)");
}

Parameters Parameters::read() {
  Parameters values;
  const ParameterReader parameter(provider());
  parameter.text("iface", values.interface);
  parameter.number("multicast_hops", values.multicast_hops, 0, kMaxHops);
  parameter.number("receive_buffer", values.receive_buffer, 0, kMaxBuffer);
  parameter.toggle("segmentation", values.segmentation);
  parameter.number("tx_size", values.tx_size, 1, kLargestQueue);
  parameter.number("rx_size", values.rx_size, 1, kLargestQueue);
  return values;
}

}  // namespace weft::udp
