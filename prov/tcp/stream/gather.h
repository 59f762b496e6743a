// SPDX-License-Identifier: BSD-2-Clause
// The pieces of the messages that one system call sends.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tcp/engine.h"
#include "tcp/limits.h"

namespace weft::tcp {

// One system call's worth of outgoing messages: small pieces copied into scratch space, large ones by reference.
struct Gather {
  static constexpr std::size_t kMaxPieces = 64;  // iovecs per system call
  // A record's: its header, its payload, and the status behind it.
  static constexpr std::size_t kMostOfRecord = 1 + std::max(kIovLimit, kMaxRmaIov) + 1;
  static constexpr std::size_t kBatchBytes = 1024 * 1024;  // stop gathering there, so that accounting stays cheap

  std::byte* scratch;    // null: short pieces are referred to as well, since no system call is saved
  std::size_t used = 0;  // bytes of scratch
  iovec iov[kMaxPieces];
  std::size_t count = 0;
  std::size_t bytes = 0;
  bool cut = false;  // the answer at its end goes on in the next round

  explicit Gather(std::byte* space) noexcept : scratch(space) {}
  bool full() const noexcept {
    return count + kMostOfRecord > kMaxPieces || used + kInlineSize > Engine::kScratchSize || bytes >= kBatchBytes;
  }
  void copy(std::byte* data, std::size_t len) noexcept {
    if (scratch == nullptr) return refer({data, len}, 0);
    std::byte* to = scratch + used;
    std::memcpy(to, data, len);
    used += len;
    bytes += len;
    if (count != 0 && static_cast<std::byte*>(iov[count - 1].iov_base) + iov[count - 1].iov_len == to)
      iov[count - 1].iov_len += len;
    else
      iov[count++] = {to, len};
  }
  void refer(const iovec& piece, std::size_t skip) noexcept {
    iov[count++] = {static_cast<std::byte*>(piece.iov_base) + skip, piece.iov_len - skip};
    bytes += piece.iov_len - skip;
  }
  // As refer(), for the payload of an answer, whose length the peer chose: a batch takes a part of what is much longer.
  void refer_part(const iovec& piece, std::size_t skip) noexcept {
    const std::size_t room = kBatchBytes - std::min(kBatchBytes, bytes);
    cut = scratch != nullptr && piece.iov_len - skip > room + kBatchBytes;
    refer({piece.iov_base, cut ? skip + room : piece.iov_len}, skip);
  }
};

}  // namespace weft::tcp
