// SPDX-License-Identifier: BSD-2-Clause
// The records of operations and messages that are under way on a connection. The engine's mutex guards them.
#pragma once

#include <rdma/fi_rma.h>

#include <memory>

#include "base/list.h"
#include "rdm/endpoint_calls.h"
#include "rdm/receive_side.h"
#include "rxm/limits.h"
#include "rxm/lower.h"
#include "rxm/packet.h"

namespace weft::rxm {

class Buffers;
struct Channel;
struct Peer;
struct FlightTag;
struct RetryTag;

// The context of an operation given to the lower provider. A channel outlives all of its operations.
struct Work {
  enum class Kind : std::uint8_t { kReceive, kTransmit, kPacket, kCopy };

  Work(Kind of) noexcept : kind(of) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  fi_context2 space;  // the lower provider's, in its modes FI_CONTEXT and FI_CONTEXT2; first, as it must be
  const Kind kind;
  Channel* channel = nullptr;
};

// Memory for a header and an eager message, registered with the lower provider if it requires that.
struct Buffer : ListHook<Buffer> {
  // The beginning of a packet that has arrived and is as long.
  const PacketHeader& header() const noexcept { return *reinterpret_cast<const PacketHeader*>(bytes); }

  std::byte* bytes = nullptr;  // aligned for a header
  void* desc = nullptr;
  Buffers* pool = nullptr;
};

// A buffer posted for a packet.
struct PostedBuffer : Work, ListHook<PostedBuffer> {
  PostedBuffer() noexcept : Work(Kind::kReceive) {}
  Buffer* buffer = nullptr;
  bool shared = false;  // by all connections to the device
};

// An operation of the application that has not completed.
struct Transmit : Work, ListHook<Transmit>, ListHook<FlightTag> {
  Transmit() noexcept : Work(Kind::kTransmit) {}

  bool has_flag(std::uint64_t flag) const noexcept { return (request.flags & flag) != 0; }
  std::span<const iovec> buffers() const noexcept { return request.iov; }
  bool is_queued() const noexcept { return ListHook<Transmit>::linked(); }

  Peer* peer = nullptr;
  TransmitRequest request;    // refers to `iov` and `remote`; `routes` is set; `silent`: no completion on success
  bool awaits_peer = false;   // the peer reports the end: of a rendezvous, a delivery or an atomic operation
  bool announced = false;     // a short message whose peer has little memory: a rendezvous
  bool reported = false;      // the operation is complete for the application ...
  std::size_t kept = 0;       // ... with a copy; bytes that it occupies among the peer's copies
  int error = 0;              // positive; reported when no lower operation is outstanding
  unsigned outstanding = 0;   // lower operations
  std::uint32_t segment = 0;  // the next one to be sent
  std::size_t sent = 0;       // bytes in the segments before it
  std::uint64_t message = 0;  // its number on the wire; 0: none
  std::size_t len = 0;
  iovec iov[kIovLimit];
  fi_rma_iov remote[kMaxRanges];
  RendezvousPacket packet;
  std::unique_ptr<std::byte[]> copy;  // FI_INJECT
  Buffer* atomic = nullptr;           // kUpdate, kFetch: the packet until it is sent; `iov` receives the results
  Lower<fid_mr> regions[kIovLimit];
};

// A packet in a buffer of our own: a control packet, or a copy of a message or segment.
struct Packet : Work, ListHook<Packet> {
  Packet() noexcept : Work(Kind::kPacket) {}
  Buffer* buffer = nullptr;
  std::size_t len = 0;
  Transmit* owner = nullptr;
  std::uint64_t lower_flags = 0;
};

// A long message that is read from its sender's memory, or written to its receiver's.
struct RemoteCopy : ListHook<RemoteCopy>, ListHook<RetryTag> {
  struct Piece : Work {
    Piece() noexcept : Work(Kind::kCopy) {}
    RemoteCopy* copy = nullptr;
    iovec local{};
    void* desc = nullptr;
    RemoteRange remote{};
  };
  static constexpr std::size_t kMaxPieces = kIovLimit + kMaxRanges;

  Channel* channel = nullptr;
  Transmit* transmit = nullptr;  // the message that is written; null: a message is read
  rdm::Delivery delivery;
  rdm::Envelope envelope;
  std::uint64_t message = 0;
  int error = 0;
  std::size_t piece_count = 0;
  std::size_t issued = 0;
  std::size_t outstanding = 0;
  Piece pieces[kMaxPieces];
  Lower<fid_mr> regions[kIovLimit];
};

// A long message that its sender was invited to write.
struct WriteTarget : ListHook<WriteTarget> {
  rdm::Delivery delivery;
  rdm::Envelope envelope;
  std::uint64_t message = 0;
  std::unique_ptr<std::byte[]> all;  // a message that is longer than its receive
  Lower<fid_mr> regions[kIovLimit];
};

struct Unexpected;

// A message that arrives in segments.
struct Assembly : ListHook<Assembly> {
  std::uint64_t message = 0;
  bool answered = false;  // PacketType::kAnsweredSegment
  std::uint32_t next_segment = 0;
  std::size_t arrived = 0;
  rdm::Envelope envelope;
  rdm::Delivery delivery;            // once it has a receive
  Unexpected* unexpected = nullptr;  // before that
};

// A message without a receive.
struct Unexpected : rdm::PeerMessage<Peer>, ListHook<Unexpected> {
  bool rendezvous = false;
  bool dead = false;  // the connection ended before all of it arrived
  Channel* channel = nullptr;
  std::unique_ptr<std::byte[]> payload;
  Assembly* assembly = nullptr;  // while segments arrive; null: complete
  std::uint64_t message = 0;     // the rendezvous, if it is one
  RendezvousHeader place;        // where that is
};

// The error for an operation that the lower provider refuses on an open channel: below, the end of the connection may
// be known before we have read its event.
constexpr int reason_of(ssize_t result) noexcept {
  return result == -FI_ENOTCONN ? FI_ECONNRESET : static_cast<int>(-result);
}

}  // namespace weft::rxm
