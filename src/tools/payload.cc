// SPDX-License-Identifier: BSD-2-Clause
// The checked content of messages; see payload.h.
#include "payload.h"

namespace weft::tools {
namespace {

constexpr char kCircle[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::size_t kLength = sizeof kCircle - 1;
constexpr uint64_t kStride = 7;

// The byte at `offset` of a message.
std::byte byte_at(std::size_t offset, uint64_t number) {
  return static_cast<std::byte>(kCircle[(number * kStride + offset) % kLength]);
}

}  // namespace

void fill_payload(std::span<std::byte> message, uint64_t number) {
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = byte_at(i, number);
}

std::optional<std::size_t> payload_fault(std::span<const std::byte> message, uint64_t number) {
  for (std::size_t i = 0; i < message.size(); ++i)
    if (message[i] != byte_at(i, number)) return i;
  return std::nullopt;
}

}  // namespace weft::tools
