// SPDX-License-Identifier: BSD-2-Clause
// One system call's worth of outgoing messages: small pieces copied into scratch space, large ones by reference.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstring>

#include "tcp/engine.h"
#include "tcp/limits.h"

namespace weft::tcp {

struct Gather {
  static constexpr std::size_t kMaxPieces = 64;            // iovecs per system call
  static constexpr std::size_t kBatchBytes = 1024 * 1024;  // stop gathering there, so that accounting stays cheap

  std::byte* scratch;
  std::size_t used = 0;  // bytes of scratch
  iovec iov[kMaxPieces];
  std::size_t count = 0;
  std::size_t bytes = 0;

  explicit Gather(std::byte* space) noexcept : scratch(space) {}
  bool full() const noexcept {
    return count + kIovLimit + 1 > kMaxPieces || used + kInlineSize > Engine::kScratchSize || bytes >= kBatchBytes;
  }
  void copy(const std::byte* data, std::size_t len) noexcept {
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
  ssize_t send(int fd) const noexcept {
    return count == 1 ? net::send(fd, iov[0].iov_base, iov[0].iov_len) : net::sendv(fd, iov, static_cast<int>(count));
  }
};

}  // namespace weft::tcp
