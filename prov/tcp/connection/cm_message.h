// SPDX-License-Identifier: BSD-2-Clause
// The connection messages of the tcp wire: a header of 32 bytes and up to 256 bytes of the application's data. Any two
// peers that speak FI_PROTO_SOCK_TCP or FI_PROTO_XNET exchange exactly one request and one answer; fi_cm(3) governs.
//
//   0 version u8 = 3 | 1 type u8 | 2 data size u16 big-endian | 4 zero, 4 bytes
//   8 the requester's extensions u64 | 16 the acceptor's extensions u64 | 24 mark u64 | 32 data
// The mark is 1 in the byte order of the sender's machine: a reader that finds it swapped swaps data headers both ways.
// Extensions are "weft" and a u32, big-endian, of Extension bits. Other implementations send zeros in their place and
// ignore them. Each role has a place of its own: an answer that repeats the request's bytes announces nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace weft::tcp {

enum class CmType : std::uint8_t { kRequest = 0, kAccept = 1, kReject = 6 };

// Parts of the protocol that some peers lack. An end uses one if it supports it and the peer's message announced() it.
enum class Extension : std::uint32_t {
  kHalfShutdown = 1 << 0,  // Op::kHalfShutdown
  kLocalWire = 1 << 1,     // Op::kMailbox, Op::kSwitch
  kRefusals = 1 << 2,      // Op::kRefused
};
inline constexpr std::uint32_t kOwnExtensions = static_cast<std::uint32_t>(Extension::kHalfShutdown) |
                                                static_cast<std::uint32_t>(Extension::kLocalWire) |
                                                static_cast<std::uint32_t>(Extension::kRefusals);  // all

inline constexpr std::size_t kCmHeaderSize = 32;
inline constexpr std::size_t kCmDataSize = 256;  // FI_OPT_CM_DATA_SIZE
inline constexpr std::size_t kCmMessageSize = kCmHeaderSize + kCmDataSize;

// Builds one message and tracks how much of it was sent, or assembles one from any pieces.
class CmMessage {
 public:
  // Outgoing. Data beyond kCmDataSize is cut off silently, as fi_cm(3) promises.
  void compose(CmType type, const void* data, std::size_t len) noexcept;
  std::span<const std::byte> unsent() const noexcept { return {bytes_.data() + position_, size_ - position_}; }

  // Incoming: where the next bytes go. Never reaches past the message, so later bytes stay in the socket.
  std::span<std::byte> room() noexcept { return {bytes_.data() + position_, size_ - position_}; }

  // `count` bytes of unsent() were sent, or of room() were filled.
  void advance(std::size_t count) noexcept { position_ += count; }

  // Incoming, after each advance(): true when the message is complete. -FI_ENOPROTOOPT: another version;
  // -FI_EREMOTEIO: not a connection message.
  Result<bool> complete() noexcept;

  CmType type() const noexcept { return static_cast<CmType>(bytes_[1]); }
  bool swapped() const noexcept;
  // Incoming, complete: the sender has the extension.
  bool announced(Extension extension) const noexcept {
    return (extensions() & static_cast<std::uint32_t>(extension)) != 0;
  }
  std::uint32_t extensions() const noexcept;
  std::span<const std::byte> data() const noexcept { return {bytes_.data() + kCmHeaderSize, size_ - kCmHeaderSize}; }

 private:
  std::array<std::byte, kCmMessageSize> bytes_{};
  std::size_t size_ = kCmHeaderSize;  // bytes of the message; of its header while that is incomplete
  std::size_t position_ = 0;
};

}  // namespace weft::tcp
