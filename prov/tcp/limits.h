// SPDX-License-Identifier: BSD-2-Clause
// The tcp provider's limits, as fi_getinfo(3) reports them, and internal limits derived from them.
#pragma once

#include <rdma/fi_rma.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "objects/transfer_calls.h"

namespace weft::tcp {

// Sizes of the header of a data message (stream/data_header.h): without optional words, and with all of them.
inline constexpr std::size_t kMaxRmaIov = 4;
inline constexpr std::size_t kBaseHeaderSize = 16;
inline constexpr std::size_t kMaxHeaderSize = kBaseHeaderSize + 8 + kMaxRmaIov * sizeof(fi_rma_iov);
static_assert(kMaxHeaderSize == 120);

inline constexpr std::size_t kInjectSize = 128;  // payload bytes that fit into a transfer record
// The inject limit of reliable datagrams; payloads longer than kInjectSize that must wait are copied to the heap.
inline constexpr std::size_t kReliableInjectSize = 16 * 1024;
// The greatest inject limit of connected endpoints, on request (tx_attr->inject_size): the messages that another
// provider's reliable datagrams inject, and their headers.
inline constexpr std::size_t kMostInjected = kReliableInjectSize + 128;
static_assert(kMostInjected <= UINT16_MAX);
// The inject limit that a connected endpoint offers for the attributes of hints, which may be null.
constexpr std::size_t inject_limit(const fi_tx_attr* asked) noexcept {
  return asked != nullptr && asked->inject_size <= kMostInjected ? std::max(asked->inject_size, kInjectSize)
                                                                 : kInjectSize;
}
// Longer tagged messages of reliable datagrams are announced to peers that support it, and sent when a receive matches.
inline constexpr std::size_t kAnnounceSize = 128 * 1024;
// Shorter messages are never announced: the announcement needs as much memory at the peer.
inline constexpr std::size_t kLeastAnnounced = 512;
// Payload of one atomic operation: operands and compare values.
inline constexpr std::size_t kMaxAtomicBytes = 16 * 1024;
inline constexpr std::size_t kDefaultQueueSize = 256;    // operations outstanding per direction
inline constexpr std::size_t kReliableQueueSize = 2048;  // reliable datagrams, per peer

// A message of up to kInjectSize bytes lies in one piece behind its header.
inline constexpr std::size_t kInlineSize = kMaxHeaderSize + kInjectSize;

constexpr TransmitLimits limits_of_transmits(std::size_t inject) noexcept {
  return {.unsupported = kUnsupportedFlags, .ranges = kMaxRmaIov, .message = SIZE_MAX, .inject = inject};
}

// Small messages of one burst share a system call until this many bytes are queued.
inline constexpr std::size_t kGatherBytes = 16 * 1024;
inline constexpr std::size_t kGatherPayload = 2 * 1024;  // larger ones go to the kernel at once
static_assert(kInlineSize < kGatherBytes);
// Long messages share system calls after FI_MORE, or if the application always returns for progress at once.
inline constexpr std::size_t kGatherLongBytes = 256 * 1024;
inline constexpr std::size_t kGatherLongPayload = 64 * 1024;

// A payload with at least this much outstanding is read straight into the application's memory.
inline constexpr std::size_t kDirectRead = 2 * 1024;

// Most bytes of unexpected messages of a connection while its endpoint receives no tagged messages. Stopping the peer
// is safe then: untagged messages match in their order.
inline constexpr std::size_t kMaxUnexpectedUntagged = 256 * 1024;

// Bytes of responses queued for one peer; beyond it nothing is read from that peer. Two ends that stop reading at once
// never continue, so it is more than a peer's operations of the default queue size need (2048 fetching atomics).
inline constexpr std::size_t kMaxResponseBytes = 40 * 1024 * 1024;
// While the responses to all peers of a domain take this much, a peer may have no more than a share: more than its
// reads of the default queue size need (2048).
inline constexpr std::size_t kAllResponseBytes = 256 * 1024 * 1024;
inline constexpr std::size_t kResponseShare = 1536 * 1024;

// After a peer closed, FI_SHUTDOWN waits this long for receives of its unexpected messages.
inline constexpr std::chrono::milliseconds kDrainGrace{1000};

}  // namespace weft::tcp
