// SPDX-License-Identifier: BSD-2-Clause
// The buffers that the application names in a transfer call; fi_msg(3).
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace weft {

// Buffers that providers without hardware take in one call.
inline constexpr std::size_t kSoftwareIovLimit = 4;

inline std::size_t total_length(std::span<const iovec> iov) noexcept {
  if (iov.size() == 1) return iov[0].iov_len;
  std::size_t len = 0;
  for (const iovec& piece : iov) len += piece.iov_len;
  return len;
}

// Whether a caller's buffers are ones to work with: not too many, and none of them NULL with a length.
[[gnu::always_inline]] inline bool valid_buffers(std::span<const iovec> iov,
                                                 std::size_t limit = kSoftwareIovLimit) noexcept {
  if (iov.size() == 1 && iov.data() != nullptr) return iov[0].iov_base != nullptr || iov[0].iov_len == 0;
  if (iov.size() > limit || (!iov.empty() && iov.data() == nullptr)) return false;
  for (const iovec& piece : iov)
    if (piece.iov_base == nullptr && piece.iov_len != 0) return false;
  return true;
}

// Copies `bytes`, which fit, into the buffers.
inline void scatter(std::span<const iovec> iov, std::span<const std::byte> bytes) noexcept {
  for (const iovec& piece : iov) {
    const std::size_t count = std::min(piece.iov_len, bytes.size());
    if (count == 0) continue;
    std::memcpy(piece.iov_base, bytes.data(), count);
    bytes = bytes.subspan(count);
  }
}

// All bytes of the buffers, one after the other.
inline void gather(std::span<const iovec> iov, std::byte* to) noexcept {
  for (const iovec& piece : iov) {
    if (piece.iov_len != 0) std::memcpy(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
  }
}

}  // namespace weft
