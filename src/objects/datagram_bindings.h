// SPDX-License-Identifier: BSD-2-Clause
// What datagram endpoints of all providers ask of their bindings (fi_endpoint(3), fi_enable), and the roles that their
// capabilities give to members of groups (fi_cm(3), fi_join).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstdint>

#include "base/status.h"

namespace weft {

// Capabilities without any direction stand for both.
constexpr bool may(std::uint64_t caps, std::uint64_t direction) noexcept {
  return (caps & (FI_SEND | FI_RECV)) == 0 || (caps & direction) != 0;
}

// -FI_ENOCQ when a direction has neither queue nor counter, -FI_ENOAV when there is nobody to send to. Routes: as in
// completion_routes.h.
template <class Routes>
Status check_datagram_bindings(const Routes& routes, std::uint64_t caps, bool has_vector) noexcept {
  if (may(caps, FI_SEND) && !routes.transmit_queue && !routes.send) return Status(-FI_ENOCQ);
  if (may(caps, FI_RECV) && !routes.receive_queue && !routes.receive) return Status(-FI_ENOCQ);
  return Status(may(caps, FI_SEND) && !has_vector ? -FI_ENOAV : 0);
}

// Of a member of a group: what the flags of fi_join say, or all that the endpoint can.
struct JoinRole {
  bool sends;
  bool receives;

  JoinRole(std::uint64_t caps, std::uint64_t flags) noexcept
      : sends(asks_for_all(flags) ? may(caps, FI_SEND) : (flags & FI_SEND) != 0),
        receives(asks_for_all(flags) ? may(caps, FI_RECV) : (flags & FI_RECV) != 0) {}

  // -FI_EACCES for a role that the capabilities exclude.
  static Status check(std::uint64_t caps, std::uint64_t flags) noexcept {
    const bool excluded =
        ((flags & FI_SEND) != 0 && !may(caps, FI_SEND)) || ((flags & FI_RECV) != 0 && !may(caps, FI_RECV));
    return Status(excluded ? -FI_EACCES : 0);
  }

 private:
  static bool asks_for_all(std::uint64_t flags) noexcept { return (flags & (FI_SEND | FI_RECV)) == 0; }
};

}  // namespace weft
