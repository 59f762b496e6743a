// SPDX-License-Identifier: BSD-2-Clause
// The provider's own limits and defaults, as fi_getinfo(3) reports them; device.h has the device's limits.
#pragma once

#include <cstddef>

namespace weft::verbs {

// Operations outstanding per direction. The provider adds one work request to sends, Soft-RoCE keeps an entry free, and
// devices round up to a power of two: 127 would take twice the memory.
inline constexpr std::size_t kDefaultQueueSize = 126;
inline constexpr std::size_t kMaxQueueSize = 32768;  // positions in a work queue fit 16 bits
inline constexpr std::size_t kDefaultIovLimit = 4;
inline constexpr std::size_t kMaxIov = 32;  // even if the device can gather more
inline constexpr std::size_t kDefaultInjectSize = 64;
inline constexpr std::size_t kMaxInjectSize = 1024;
// Datagram endpoints are few and a message may arrive at any time, so each has more inline bytes and receives.
inline constexpr std::size_t kDatagramInjectSize = 256;
inline constexpr std::size_t kDatagramReceives = 512;
inline constexpr std::size_t kCqDataSize = 4;   // bytes of immediate data
inline constexpr std::size_t kAtomicCount = 1;  // elements of an atomic operation

// The part of a message that exceeds its receive buffer is written to spill memory shared by the domain's endpoints, so
// that the receive fails and the connection survives. A longer excess breaks the connection.
inline constexpr std::size_t kSpillSize = 64 * 1024;

// Work requests that FI_MORE may gather before they are posted.
inline constexpr std::size_t kChainLength = 16;

}  // namespace weft::verbs
