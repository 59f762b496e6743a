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
inline constexpr std::size_t kIovLimit = 4;

inline std::size_t total_length(std::span<const iovec> iov) noexcept {
  if (iov.size() == 1) return iov[0].iov_len;
  std::size_t len = 0;
  for (const iovec& piece : iov) len += piece.iov_len;
  return len;
}

// The buffer of a transfer call with one buffer, in the form of calls with a vector. Lives as long as the call.
struct OneBuffer {
  iovec iov;
  OneBuffer(const void* buf, std::size_t len) noexcept : iov{const_cast<void*>(buf), len} {}
  operator std::span<const iovec>() const noexcept { return {&iov, 1}; }
};

// Whether a caller's vector is one to work with: a list of not too many buffers.
constexpr bool valid_vector(std::span<const iovec> iov) noexcept {
  return iov.size() <= kIovLimit && (iov.empty() || iov.data() != nullptr);
}

// valid_vector() for buffers that are read: none of them is NULL with a length, and their lengths have a sum.
[[gnu::always_inline]] inline bool valid_buffers(std::span<const iovec> iov) noexcept {
  if (iov.size() == 1 && iov.data() != nullptr) return iov[0].iov_base != nullptr || iov[0].iov_len == 0;
  if (!valid_vector(iov)) return false;
  std::size_t len = 0;
  for (const iovec& piece : iov)
    if ((piece.iov_base == nullptr && piece.iov_len != 0) || __builtin_add_overflow(len, piece.iov_len, &len))
      return false;
  return true;
}

// Copies `bytes`, which fit, into several buffers.
[[gnu::noinline]] inline void scatter_to_many(std::span<const iovec> iov, std::span<const std::byte> bytes) noexcept {
  for (const iovec& piece : iov) {
    const std::size_t count = std::min(piece.iov_len, bytes.size());
    if (count == 0) continue;
    std::memcpy(piece.iov_base, bytes.data(), count);
    bytes = bytes.subspan(count);
  }
}

// Copies `bytes`, which fit, into the buffers; mostly there is one.
inline void scatter(std::span<const iovec> iov, std::span<const std::byte> bytes) noexcept {
  if (iov.size() != 1) [[unlikely]]
    return scatter_to_many(iov, bytes);
  if (!bytes.empty()) std::memcpy(iov[0].iov_base, bytes.data(), bytes.size());
}

// The `len` bytes of the buffers from `offset` bytes into them on, or as many as there are: calls copy(part, done,
// size) for each contiguous part, behind the first `done` bytes. Returns how many there are.
template <class Copy>
std::size_t copy_parts(std::span<const iovec> iov, std::size_t offset, std::size_t len, Copy copy) noexcept {
  std::size_t done = 0;
  for (const iovec& piece : iov) {
    if (offset >= piece.iov_len) {
      offset -= piece.iov_len;
      continue;
    }
    const std::size_t size = std::min(piece.iov_len - offset, len - done);
    if (size != 0) copy(static_cast<std::byte*>(piece.iov_base) + offset, done, size);
    done += size;
    offset = 0;
    if (done == len) break;
  }
  return done;
}

// Copies bytes into the buffers, from `offset` bytes into them on; those that do not fit are dropped. Returns how many
// fitted.
inline std::size_t scatter(std::span<const iovec> iov, std::size_t offset, const std::byte* from,
                           std::size_t len) noexcept {
  return copy_parts(iov, offset, len,
                    [&](std::byte* part, std::size_t done, std::size_t size) { std::memcpy(part, from + done, size); });
}
// The reverse.
inline void gather(std::span<const iovec> iov, std::size_t offset, std::byte* to, std::size_t len) noexcept {
  copy_parts(iov, offset, len,
             [&](std::byte* part, std::size_t done, std::size_t size) { std::memcpy(to + done, part, size); });
}

// All bytes of the buffers, one after the other.
inline void gather(std::span<const iovec> iov, std::byte* to) noexcept {
  if (iov.size() == 1) [[likely]] {
    if (iov[0].iov_len != 0) std::memcpy(to, iov[0].iov_base, iov[0].iov_len);
    return;
  }
  for (const iovec& piece : iov) {
    if (piece.iov_len != 0) std::memcpy(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
  }
}

}  // namespace weft
