// SPDX-License-Identifier: BSD-2-Clause
// The buffers that the application names in a transfer call; fi_msg(3).
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "objects/message_buffers.h"

namespace weft::udp {

// Copies `bytes`, which fit, into the buffers.
inline void scatter(std::span<const iovec> iov, std::span<const std::byte> bytes) noexcept {
  for (const iovec& piece : iov) {
    const std::size_t count = std::min(piece.iov_len, bytes.size());
    if (count == 0) continue;
    std::memcpy(piece.iov_base, bytes.data(), count);
    bytes = bytes.subspan(count);
  }
}

}  // namespace weft::udp
