// SPDX-License-Identifier: BSD-2-Clause
// The rights and ranges that a registration may name, of every provider; fi_mr(3).
#pragma once

#include <rdma/fabric.h>
#include <sys/uio.h>

#include <cstdint>

namespace weft {

// Capabilities grant nothing here, but programs add them, and libfabric ignores them.
inline constexpr std::uint64_t kAccessRights = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
                                               FI_REMOTE_WRITE | FI_COLLECTIVE | FI_MSG | FI_TAGGED | FI_RMA |
                                               FI_ATOMIC;

// An empty range is valid anywhere: MPI programs register windows of no bytes.
inline bool wraps_around(const iovec& memory) noexcept {
  return memory.iov_len != 0 && memory.iov_len - 1 > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(memory.iov_base);
}

}  // namespace weft
