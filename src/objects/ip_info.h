// SPDX-License-Identifier: BSD-2-Clause
// The answer of a provider with internet addresses to fi_getinfo(3): one info for each local address that fits, or for
// each destination the source address of the route to it. The provider passes its offer; this code finds the addresses
// and the names of interfaces and networks, and compares them with the hints.
//
// No lock is held here: resolving names may take long.
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include <functional>
#include <string>

#include "objects/address.h"
#include "objects/attributes.h"

namespace weft {

// One possible result.
struct IpCandidate {
  Address source;
  Address destination;  // empty: none
  std::string fabric;
  std::string domain;   // the name of the interface, if any
  std::size_t mtu = 0;  // the interface's, in bytes; 0: none, or unknown
};

// The parts that differ between providers.
struct IpProvider {
  const fi_provider* provider;
  // Names of the fabric and the domain for sources without an interface, such as 0.0.0.0.
  const char* any_fabric;
  const char* any_domain;
  // The only interface to use (empty: all) and the name of the parameter that sets it.
  std::string interface;
  const char* interface_parameter;
  // Finds the source address of packets to `peer`: 0 or -errno.
  int (*route)(const sockaddr* peer, socklen_t peer_len, sockaddr* local, socklen_t* local_len) noexcept;
  // Completes the offer for one candidate, before it is compared with the hints; may be empty.
  std::function<void(fi_info& info, const IpCandidate& candidate)> adjust = {};
};

// Adds the infos to `list`. `offer` has everything but addresses and names. An error is that of fi_getinfo.
Status answer_with_addresses(const IpProvider& how, const fi_info& offer, const char* node, const char* service,
                             uint64_t flags, InfoList& list);

}  // namespace weft
