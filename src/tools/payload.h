// SPDX-License-Identifier: BSD-2-Clause
// The content of messages whose integrity is checked; fi_pingpong(1) -c. Digits and letters repeat in a circle; each
// message starts further on than the one before, so that a lost, repeated or stale message is detected. The order is
// that of libfabric's fi_pingpong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace weft::tools {

// Fills a message; `number` counts the messages of one direction from 0.
void fill_payload(std::span<std::byte> message, uint64_t number);

// The offset of the first byte that differs from fill_payload's; nothing when the message is right.
std::optional<std::size_t> payload_fault(std::span<const std::byte> message, uint64_t number);

}  // namespace weft::tools
