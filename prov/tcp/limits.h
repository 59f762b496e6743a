// SPDX-License-Identifier: BSD-2-Clause
// The tcp provider's limits, as fi_getinfo(3) reports them, and what follows from them.
#pragma once

#include <chrono>
#include <cstddef>

#include "tcp/data_header.h"

namespace weft::tcp {

inline constexpr std::size_t kIovLimit = 4;
inline constexpr std::size_t kInjectSize = 128;  // bytes an operation may keep of its own
// The same for reliable datagrams, which keep what is longer than kInjectSize in memory of its own if it has to wait.
inline constexpr std::size_t kReliableInjectSize = 16 * 1024;
// Longer tagged messages of reliable datagrams are announced to peers that understand it, and sent when they are
// wanted.
inline constexpr std::size_t kAnnounceSize = 128 * 1024;
// What one atomic operation may carry: operands, and what they are compared with.
inline constexpr std::size_t kMaxAtomicBytes = 16 * 1024;
inline constexpr std::size_t kDefaultQueueSize = 256;    // operations outstanding per direction
inline constexpr std::size_t kReliableQueueSize = 2048;  // of reliable datagrams, per peer
inline constexpr std::size_t kDefaultMinMultiReceive = 64;

// A message of up to kInjectSize bytes lies in one piece behind its header.
inline constexpr std::size_t kInlineSize = kMaxHeaderSize + kInjectSize;

// Posted in one burst, small messages share a system call until this many bytes are waiting.
inline constexpr std::size_t kGatherBytes = 16 * 1024;
inline constexpr std::size_t kGatherPayload = 2 * 1024;  // larger ones go to the kernel at once
static_assert(kInlineSize < kGatherBytes);
// Long ones, if the application said that more would follow, or always comes back for progress at once.
inline constexpr std::size_t kGatherLongBytes = 256 * 1024;
inline constexpr std::size_t kGatherLongPayload = 64 * 1024;

// A payload with at least this much outstanding is read straight into the application's memory.
inline constexpr std::size_t kDirectRead = 2 * 1024;

// What one endpoint or shared context keeps of messages that no receive was posted for; beyond it the peer waits.
inline constexpr std::size_t kMaxUnexpectedBytes = 64 * 1024 * 1024;
inline constexpr std::size_t kMaxUnexpectedUntagged = 256 * 1024;

// Read requests of a peer that may wait for their turn; beyond it the peer is not read from.
inline constexpr std::size_t kMaxResponses = 1024;

// A peer has closed, but messages of it wait for receives: so long FI_SHUTDOWN waits for them.
inline constexpr std::chrono::milliseconds kDrainGrace{1000};

}  // namespace weft::tcp
