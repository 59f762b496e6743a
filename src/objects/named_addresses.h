// SPDX-License-Identifier: BSD-2-Clause
// The addresses that one fi_getinfo(3) call names: node and service name the destination, or the source with FI_SOURCE;
// hints may name the other one.
//
// No lock is held here: resolving names may take long.
#pragma once

#include <fmt/format.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "objects/address.h"

namespace weft {

// A: the provider's addresses, made from an Address.
template <class A>
class NamedAddresses {
 public:
  // `parse` makes an A of an address in the hints; -FI_EINVAL for invalid ones. Addresses that do not meet `fits` count
  // as absent. Names are resolved to `family` (AF_UNSPEC: any). -FI_ENODATA, -FI_EINVAL; `refuse` gets the reason as
  // text where the error is not enough.
  template <class Parse, class Fits, class Refuse>
  Status read(const char* node, const char* service, uint64_t flags, const fi_info* hints, int family, Parse parse,
              Fits fits, Refuse refuse) {
    const bool named = node != nullptr || service != nullptr;
    const bool source_named = (flags & FI_SOURCE) != 0;
    if (source_named && !named) return Status(-FI_EINVAL);
    if (named) {
      const auto found = look_up(node, service, flags, family);
      if (!found) {
        refuse(fmt::format("{}:{} cannot be resolved", node != nullptr ? node : "", service != nullptr ? service : ""));
        return found.error();
      }
      (source_named ? sources_ : destinations_).assign(found->begin(), found->end());
    }
    auto take = [&](std::vector<A>& list, const void* address, size_t len) {
      const Result<A> given = parse(address, len);
      if (!given) return Status(-FI_ENODATA);
      if (fits(*given)) list.push_back(*given);
      return Status();
    };
    if (hints == nullptr) return Status();
    if (!source_named && hints->src_addr != nullptr)
      if (Status status = take(sources_, hints->src_addr, hints->src_addrlen); !status.ok()) return status;
    if ((source_named || !named) && hints->dest_addr != nullptr)
      return take(destinations_, hints->dest_addr, hints->dest_addrlen);
    return Status();
  }

  // The candidates for answers: each source, with the first destination of its family if there are destinations;
  // without a source, the route to each destination; without both, each interface.
  template <class AddSource, class AddRoute, class AddEach>
  void pair(AddSource add_source, AddRoute add_route, AddEach add_each) const {
    for (const A& source : sources_) {
      const auto destination = std::find_if(destinations_.begin(), destinations_.end(),
                                            [&](const A& to) { return to.family() == source.family(); });
      if (destination != destinations_.end())
        add_source(source, *destination);
      else if (destinations_.empty())
        add_source(source, A());
    }
    if (!sources_.empty()) return;
    for (const A& destination : destinations_) add_route(destination);
    if (destinations_.empty()) add_each();
  }

 private:
  static Result<std::vector<Address>> look_up(const char* node, const char* service, uint64_t flags, int family) {
    if (node != nullptr && std::strstr(node, "://") != nullptr) {  // FI_ADDR_STR
      if (service != nullptr) return failure(FI_EINVAL);
      const auto address = Address::parse(node);
      if (!address) return failure(FI_ENODATA);
      return std::vector{*address};
    }
    return resolve(node, service,
                   {.passive = (flags & FI_SOURCE) != 0, .numeric = (flags & FI_NUMERICHOST) != 0, .family = family});
  }

  std::vector<A> sources_;
  std::vector<A> destinations_;
};

}  // namespace weft
