// SPDX-License-Identifier: BSD-2-Clause
// The bindings that datagram endpoints of all providers require (fi_endpoint(3), fi_enable), and the roles that their
// capabilities allow to members of groups (fi_cm(3), fi_join).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstdint>

#include "base/status.h"

namespace weft {

// Capabilities without any direction stand for both.
constexpr bool supports(std::uint64_t caps, std::uint64_t direction) noexcept {
  return (caps & (FI_SEND | FI_RECV)) == 0 || (caps & direction) != 0;
}

// -FI_ENOCQ when a direction has neither queue nor counter, -FI_ENOAV when sends have no address vector. Routes: as in
// completion_routes.h.
template <class Routes>
Status check_datagram_bindings(const Routes& routes, std::uint64_t caps, bool has_vector) noexcept {
  if (Status status = routes.check(caps); !status.ok()) return status;
  // A counter of remote memory accesses is enough for other endpoints.
  if (supports(caps, FI_SEND) && !routes.transmit_queue && !routes.send) return Status(-FI_ENOCQ);
  return Status(supports(caps, FI_SEND) && !has_vector ? -FI_ENOAV : 0);
}

// The name of the group in place `index`. Names of groups lie beyond the handles of an address vector, so the two
// cannot be confused; the count of uses of the place makes names of groups that were left invalid.
inline constexpr unsigned kGroupIndexBits = 24;
inline constexpr fi_addr_t kGroupIndexMask = (fi_addr_t{1} << kGroupIndexBits) - 1;
constexpr fi_addr_t group_name(std::uint64_t uses, std::uint64_t index) noexcept {
  return fi_addr_t{1} << 62 | uses << kGroupIndexBits | index;
}

// The role of a member of a group: the directions in the flags of fi_join, or all that the endpoint supports.
struct JoinRole {
  bool sends;
  bool receives;

  JoinRole(std::uint64_t caps, std::uint64_t flags) noexcept
      : sends(names_no_role(flags) ? supports(caps, FI_SEND) : (flags & FI_SEND) != 0),
        receives(names_no_role(flags) ? supports(caps, FI_RECV) : (flags & FI_RECV) != 0) {}

  // -FI_EACCES for a role that the capabilities exclude.
  static Status check(std::uint64_t caps, std::uint64_t flags) noexcept {
    const bool excluded =
        ((flags & FI_SEND) != 0 && !supports(caps, FI_SEND)) || ((flags & FI_RECV) != 0 && !supports(caps, FI_RECV));
    return Status(excluded ? -FI_EACCES : 0);
  }

 private:
  static bool names_no_role(std::uint64_t flags) noexcept { return (flags & (FI_SEND | FI_RECV)) == 0; }
};

}  // namespace weft
