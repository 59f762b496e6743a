// SPDX-License-Identifier: BSD-2-Clause
// The addresses of this host; see host_addresses.h.
#include "rdm/host_addresses.h"

#include <new>

namespace weft::rdm {

std::vector<Address> same_port_on_this_host(const Address& address) noexcept {
  try {
    std::vector<Address> found;
    const auto take = [&](Address host) {
      host.set_port(address.port());
      found.push_back(host);
    };
    if (const auto interfaces = local_interfaces())
      for (const Interface& each : *interfaces)
        if (each.address.family() == address.family()) take(each.address);
    take(Address::loopback(address.family(), 0));
    return found;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

Address reachable_name(const Address& own) noexcept {
  if (!own.is_any()) return own;
  const auto names = same_port_on_this_host(own);
  return names.empty() ? own : names.front();
}

}  // namespace weft::rdm
