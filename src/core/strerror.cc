// SPDX-License-Identifier: BSD-2-Clause
// fi_strerror; fi_errno(3).
#include <rdma/fi_errno.h>

#include <cstring>
#include <iterator>

#include "core/boundary.h"

namespace {

constexpr const char* kTexts[] = {
    "Unspecified error",
    "Provided buffer is too small",
    "Operation not permitted in current state",
    "Error available",
    "Flags not supported",
    "Missing or unavailable event queue",
    "Invalid resource domain",
    "Missing or unavailable completion queue",
    "CRC error",
    "Truncation error",
    "Required key not available",
    "Missing or unavailable address vector",
    "Queue has been overrun",
    "Receiver not ready, no receive buffers available",
    "Memory registration missing or limit exceeded",
    "Peer is behind a firewall and cannot be addressed",
};
static_assert(std::size(kTexts) == FI_ERRNO_MAX - FI_ERRNO_OFFSET);

}  // namespace

// Accepts -FI_E... of a call and the positive number of an error entry.
WEFT_EXPORT const char* fi_strerror(int errnum) {
  const unsigned error = errnum < 0 ? 0U - static_cast<unsigned>(errnum) : static_cast<unsigned>(errnum);
  if (error < FI_ERRNO_OFFSET) return ::strerror(static_cast<int>(error));  // glibc's is thread-safe
  return error < FI_ERRNO_MAX ? kTexts[error - FI_ERRNO_OFFSET] : kTexts[0];
}
