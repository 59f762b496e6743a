// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's limits, as fi_getinfo(3) reports them.
#pragma once

#include <sys/socket.h>

#include <cstddef>

#include "objects/message_buffers.h"

namespace weft::udp {

inline constexpr std::size_t kDefaultQueueSize = 1024;  // operations outstanding per direction

// Headers of IP and UDP in front of a datagram, and the longest datagram that IP can carry at all.
constexpr std::size_t header_size(int family) noexcept {
  return family == AF_INET6 ? 40 + 8 : 20 + 8;
}
constexpr std::size_t longest_datagram(int family) noexcept {
  return 65'535 - (family == AF_INET6 ? 8 : 20 + 8);
}

// The MTU offered unless the hints request longer messages. Programs size their buffers by it.
inline constexpr std::size_t kEthernetMtu = 1500;

// Sends posted in one burst that share a system call.
inline constexpr std::size_t kSendBatch = 64;
// The sends of one burst to one destination that share a packet (UDP_MAX_SEGMENTS of older kernels).
inline constexpr std::size_t kMaxSegments = 64;
inline constexpr std::size_t kMaxSegmentedBytes = 65'535 - 40 - 8;

// Datagrams that one system call reads, and the size to which the kernel may coalesce those of one sender (UDP_GRO).
inline constexpr std::size_t kReceiveBatch = 16;
inline constexpr std::size_t kReceiveSlot = 65'536;
static_assert(kReceiveSlot > longest_datagram(AF_INET6) && kReceiveSlot > kMaxSegmentedBytes);

// The number of sockets that progress reads without readiness; with more sockets readiness is cheaper.
inline constexpr std::size_t kPolledSockets = 2;

}  // namespace weft::udp
