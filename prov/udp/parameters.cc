// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's parameters; see parameters.h.
#include "udp/parameters.h"

#include "objects/attributes.h"
#include "objects/parameter_rows.h"
#include "udp/logging.h"

namespace weft::udp {
namespace {

using P = Parameters;
constexpr int kMaxHops = 255;
constexpr int kMaxBuffer = 1 << 30;

constexpr ParameterRow<P> kRows[] = {
    {"iface", &P::interface, "The only network interface to use, e.g. eth0"},
    {"multicast_hops", &P::multicast_hops, "Range of group messages: 1 stays in the local network", 0, kMaxHops},
    {"receive_buffer", &P::receive_buffer,
     "Bytes of datagrams that the kernel may store for a socket; 0: the system's default", 0, kMaxBuffer},
    {"segmentation", &P::segmentation,
     "Let bursts of messages of equal length pass the kernel as one packet (GSO, GRO)"},
    {"tx_size", &P::tx_size, "Default size of transmit queues", 1, kLongestSoftwareQueue},
    {"rx_size", &P::rx_size, "Default size of receive queues", 1, kLongestSoftwareQueue},
};

}  // namespace

void Parameters::define() {
  define_parameters(&provider(), kRows);
}

Parameters Parameters::read() {
  return read_parameters(&provider(), kRows);
}

}  // namespace weft::udp
