// SPDX-License-Identifier: BSD-2-Clause
// What the messages hold when their integrity is checked (fi_pingpong -c). Digits and letters in a circle; each message
// starts a little further on than the one before, so that a lost, repeated or stale message shows. The order is the one
// that existing fi_pingpong programs send and expect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace weft::tools {

// Fills a message; `number` counts the messages of one direction from 0.
void fill_payload(std::span<std::byte> message, uint64_t number);

// Where the first byte is that fill_payload would not have written; nothing when the message is right.
std::optional<std::size_t> payload_fault(std::span<const std::byte> message, uint64_t number);

}  // namespace weft::tools
