// SPDX-License-Identifier: BSD-2-Clause
// The addresses of this host. An endpoint at the wildcard address has all of them, with one port. So a peer on this
// host may have inserted one of them, and receive requests from another.
#pragma once

#include <vector>

#include "objects/address.h"

namespace weft::rdm {

// `address` with its host replaced by each of this host's, in its family: routable addresses first, then those of
// links, then loopback. Only loopback if the system refuses the list; empty when memory runs out.
std::vector<Address> same_port_on_this_host(const Address& address) noexcept;

// The name that peers insert for an endpoint: in place of the wildcard, the first of the above.
Address reachable_name(const Address& own) noexcept;

}  // namespace weft::rdm
