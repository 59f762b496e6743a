// SPDX-License-Identifier: BSD-2-Clause
// The content of messages whose integrity is checked; fi_pingpong(1) -c. Digits and letters repeat in a circle; each
// message starts further on than the one before, so that a lost, repeated or stale message is detected. The order is
// that of libfabric's fi_pingpong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weft::tools {

// The byte at `offset` of a message; `number` counts the messages of one direction from 0.
inline std::byte payload_byte(std::size_t offset, uint64_t number) {
  constexpr std::string_view kCircle = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr uint64_t kStride = 7;
  return static_cast<std::byte>(kCircle[(number * kStride + offset) % kCircle.size()]);
}

inline void fill_payload(std::span<std::byte> message, uint64_t number) {
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = payload_byte(i, number);
}

// The offset of the first byte that differs from fill_payload's; nothing when the message is right.
inline std::optional<std::size_t> payload_fault(std::span<const std::byte> message, uint64_t number) {
  for (std::size_t i = 0; i < message.size(); ++i)
    if (message[i] != payload_byte(i, number)) return i;
  return std::nullopt;
}

}  // namespace weft::tools
