// SPDX-License-Identifier: BSD-2-Clause
// Ends of one host that use a device exchange messages through tcp's shared memory instead (decision 0012): the second
// lower provider of a domain, and how two ends detect that they share a host; fi_rxm(7).
#pragma once

#include <cstdint>
#include <memory>

#include "rxm/lower_side.h"

namespace weft::rxm {

// tcp's connected endpoints on the loopback address. Owner: the domain.
struct LocalSide {
  Lower<fid_fabric> fabric;
  LowerSide side;
};

// For a domain over `device`, unless that is tcp itself. Null, with a line in the log: tcp does not share memory.
std::unique_ptr<LocalSide> open_local_side(const fi_info& device, uint32_t version);

// A number that processes have in common if they can share memory: those of one user, in the same namespaces of one
// host. Not 0; other processes may have it by chance.
std::uint32_t local_mark() noexcept;

}  // namespace weft::rxm
