// SPDX-License-Identifier: BSD-2-Clause
// The rights that a registration may name, of every provider; fi_mr(3).
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

namespace weft {

// Capabilities grant nothing here, but programs add them, and libfabric ignores them.
inline constexpr std::uint64_t kAccessRights = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
                                               FI_REMOTE_WRITE | FI_COLLECTIVE | FI_MSG | FI_TAGGED | FI_RMA |
                                               FI_ATOMIC;

}  // namespace weft
