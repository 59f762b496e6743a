// SPDX-License-Identifier: BSD-2-Clause
// Sizes of the verbs provider's own making, as fi_getinfo(3) reports them; what a device has is asked from the device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::verbs {

// Operations outstanding per direction. We add a work request of our own to sends, Soft-RoCE keeps an entry free, and
// devices round up to a power of two: 127 would take twice the memory.
inline constexpr std::size_t kDefaultQueueSize = 126;
inline constexpr std::size_t kMaxQueueSize = 32768;  // positions in a work queue fit 16 bits
inline constexpr std::size_t kDefaultIovLimit = 4;
inline constexpr std::size_t kMaxIov = 32;  // whatever more the device could gather
inline constexpr std::size_t kDefaultInjectSize = 64;
inline constexpr std::size_t kMaxInjectSize = 1024;
// Datagrams: endpoints are few, and every message may come at any time, so each has more of both.
inline constexpr std::size_t kDatagramInjectSize = 256;
inline constexpr std::size_t kDatagramReceives = 512;
inline constexpr std::size_t kDefaultMinMultiReceive = 64;
inline constexpr std::size_t kCqDataSize = 4;  // bytes of immediate data

// What a message has too much of its receive buffer goes to memory that all endpoints of a domain share, so that the
// receive fails and the connection lives. More than this breaks the connection.
inline constexpr std::size_t kSpillSize = 64 * 1024;

// Work requests that FI_MORE may gather before they leave.
inline constexpr std::size_t kChainLength = 16;

}  // namespace weft::verbs
