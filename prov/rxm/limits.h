// SPDX-License-Identifier: BSD-2-Clause
// The limits of ofi_rxm, as fi_getinfo(3) reports them, and what follows from them.
#pragma once

#include <chrono>
#include <cstddef>

#include "rdm/receive_side.h"
#include "rxm/packet.h"

namespace weft::rxm {

inline constexpr std::size_t kIovLimit = rdm::kIovLimit;
inline constexpr std::size_t kDefaultQueueSize = 2048;  // operations outstanding per direction

// Messages of up to this size travel behind their header; both ends of a connection must agree on it.
inline constexpr std::size_t kDefaultEagerLimit = 16384;
// Up to so many eager packets a message is cut to pieces; longer ones are fetched by the receiver.
inline constexpr std::size_t kMaxSegments = 8;

// Packets of up to this size the lower provider is asked to copy (inject_size), if it can.
inline constexpr std::size_t kShortPacket = sizeof(PacketHeader) + 64;

// What lies in wait for a peer's packets, per connection.
inline constexpr std::size_t kReceivesPerChannel = 8;
// ... or for those of all peers: as many a connection, but not more than this.
inline constexpr std::size_t kSharedReceives = 256;
// ... and not less: what a peer sends beyond them waits for a while of the device's choosing.
inline constexpr std::size_t kFewestSharedReceives = 128;
inline constexpr std::size_t kBuffersPerSlab = 16;

// Answers that wait for room below; a peer that does not read so many is not listened to until it does.
inline constexpr unsigned kMaxWaitingAnswers = 4096;

// An unexpected message of up to this size is copied out of the buffer that it came in.
inline constexpr std::size_t kCopiedMessage = 1024;
// What an endpoint keeps of messages that no receive was posted for; beyond it peers wait.
inline constexpr std::size_t kDefaultUnexpectedBytes = std::size_t{64} * 1024 * 1024;

// A peer that is neither reached nor heard of for so long fails the operations that wait for it.
inline constexpr int kDefaultConnectTimeoutMs = 30'000;
// A request that lost against the peer's own is repeated if that one does not come.
inline constexpr std::chrono::milliseconds kAlreadyPatience{200};

// Pauses between looks at connections while the application polls.
inline constexpr std::chrono::microseconds kCmInterval{1000};
inline constexpr unsigned kCmPolls = 1024;

// Keys of our own registrations, where the application chooses the other ones.
inline constexpr std::uint64_t kOwnKeys = std::uint64_t{1} << 63;

}  // namespace weft::rxm
