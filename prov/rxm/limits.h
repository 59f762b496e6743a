// SPDX-License-Identifier: BSD-2-Clause
// The limits of ofi_rxm, as fi_getinfo(3) reports them, and derived constants.
#pragma once

#include <chrono>
#include <cstddef>

#include "rxm/packet.h"

namespace weft::rxm {

inline constexpr std::size_t kDefaultQueueSize = 2048;  // operations outstanding per direction

// Messages of up to this size are sent eagerly, behind their header; both ends of a connection must agree on it.
inline constexpr std::size_t kDefaultEagerLimit = 16384;
// A message of up to this many eager packets is cut into segments; a longer one is a rendezvous.
inline constexpr std::size_t kMaxSegments = 8;
// No longer message is cut into segments, whatever the parameter: a peer may accept no more.
inline constexpr std::size_t kMaxAssembled = std::size_t{16} * 1024 * 1024;

// The lower provider shall copy packets of up to this size (inject_size), if it can: eager packets, else short ones.
inline constexpr std::size_t kEagerPacket = sizeof(PacketHeader) + kDefaultEagerLimit;
inline constexpr std::size_t kShortPacket = sizeof(PacketHeader) + 64;

// Posted receives for packets, per connection.
inline constexpr std::size_t kReceivesPerChannel = 8;
// Posted receives where both ends count receives (kCredit), and the number that is reported at once. A peer's last
// receive is kept for a report, so that both ends can always report.
inline constexpr std::size_t kCountedReceives = 16;
inline constexpr std::uint32_t kReportedReceives = kCountedReceives / 2;
// With shared receives: as many per connection, in total at most this.
inline constexpr std::size_t kSharedReceives = 256;
// ... and at least this: packets beyond them are delayed by the device's retry timer.
inline constexpr std::size_t kFewestSharedReceives = 128;
inline constexpr std::size_t kBuffersPerSlab = 16;

// Shorter messages are never announced: the announcement needs as much memory at the peer.
inline constexpr std::size_t kLeastAnnounced = 512;

// Responses that wait for room at the lower provider; with this many, the peer's packets are not received.
inline constexpr unsigned kMaxQueuedResponses = 4096;

// Time, and number of polls, between reads of the connection events while the application polls; and the number of
// endpoints whose events one poll reads at most.
inline constexpr std::chrono::microseconds kCmInterval{1000};
inline constexpr unsigned kCmPolls = 1024;
inline constexpr unsigned kMaxCmTurns = 32;

// Keys of our own registrations, if the application chooses its keys.
inline constexpr std::uint64_t kOwnKeys = std::uint64_t{1} << 63;

}  // namespace weft::rxm
