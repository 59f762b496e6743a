// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's limits, as fi_getinfo(3) reports them, and what follows from them.
#pragma once

#include <sys/socket.h>

#include <cstddef>

#include "objects/receive_queue.h"

namespace weft::udp {

inline constexpr std::size_t kIovLimit = kReceiveIovLimit;
inline constexpr std::size_t kDefaultQueueSize = 1024;  // operations outstanding per direction
inline constexpr std::size_t kDefaultMinMultiReceive = 64;

// Headers of IP and UDP in front of a datagram, and the longest datagram that IP can carry at all.
constexpr std::size_t header_size(int family) noexcept {
  return family == AF_INET6 ? 40 + 8 : 20 + 8;
}
constexpr std::size_t longest_datagram(int family) noexcept {
  return 65'535 - (family == AF_INET6 ? 8 : 20 + 8);
}

// What is offered where nothing longer is asked for: what an Ethernet frame carries. Programs size their buffers by it.
inline constexpr std::size_t kEthernetMtu = 1500;

// Sends posted in one burst that share a system call.
inline constexpr std::size_t kSendBatch = 64;
// Of these, so many to one destination travel through the kernel as one packet (UDP_MAX_SEGMENTS of older kernels).
inline constexpr std::size_t kMaxSegments = 64;
inline constexpr std::size_t kMaxSegmentedBytes = 65'535 - 40 - 8;

// Datagrams that one system call reads. The kernel may join those of one sender (UDP_GRO) to something of this size.
inline constexpr std::size_t kReceiveBatch = 16;
inline constexpr std::size_t kReceiveSlot = 65'536;
static_assert(kReceiveSlot > longest_datagram(AF_INET6) && kReceiveSlot > kMaxSegmentedBytes);

// Sockets that progress reads without asking for readiness; with more of them asking is cheaper.
inline constexpr std::size_t kPolledSockets = 2;

}  // namespace weft::udp
