// SPDX-License-Identifier: BSD-2-Clause
// Aliases of endpoints: handles of the same endpoint with default flags of their own; fi_ep_alias of fi_endpoint(3).
#pragma once

#include <rdma/fi_endpoint.h>

#include "base/ref.h"

namespace weft {

// FI_ALIAS of fi_control: `argument` is a fi_alias. `users` counts the aliases: the endpoint's close answers -FI_EBUSY
// while it is in use. Called without locks.
int open_alias(fid_ep& endpoint, RefCounted& users, void* argument);

// The endpoint itself, for an alias or any other endpoint; null stays null.
fid_ep* without_alias(fid_ep* ep) noexcept;

}  // namespace weft
