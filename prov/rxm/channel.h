// SPDX-License-Identifier: BSD-2-Clause
// A connection to a peer, and the records of what goes on over it. The endpoint owns all of them, the engine's mutex
// guards them.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <memory>

#include "base/deadline.h"
#include "base/list.h"
#include "objects/completion_routes.h"
#include "rdm/farewell.h"
#include "rdm/peer_table.h"
#include "rdm/receive_side.h"
#include "rdm/transfer_calls.h"
#include "rxm/buffers.h"
#include "rxm/direct_link.h"
#include "rxm/limits.h"
#include "rxm/packet.h"

namespace weft::rxm {

struct Channel;
struct Peer;
struct FlightTag;
struct StalledTag;

// What the lower provider knows an operation of ours by. A channel outlives all of its own.
struct Work {
  enum class Kind : std::uint8_t { kReceive, kTransmit, kPacket, kCopy };

  Work(Kind what) noexcept : kind(what) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  fi_context2 space;  // the lower provider's, in its modes FI_CONTEXT and FI_CONTEXT2; first, as it must be
  const Kind kind;
  Channel* channel = nullptr;
};

// A buffer that a packet may arrive in.
struct PostedBuffer : Work, ListHook<PostedBuffer> {
  PostedBuffer() noexcept : Work(Kind::kReceive) {}
  Buffer* buffer = nullptr;
};

using rdm::Operation;

// An operation of the application on its way.
struct Transmit : Work, ListHook<Transmit>, ListHook<FlightTag> {
  Transmit() noexcept : Work(Kind::kTransmit) {}

  Peer* peer = nullptr;
  void* context = nullptr;
  CompletionRoutes* routes = nullptr;  // where it completes
  std::uint64_t completion_flags = 0;
  std::uint8_t receive_context = 0;
  Operation operation = Operation::kMessage;
  bool report = true;             // a completion is wanted
  bool has_data = false;          // FI_REMOTE_CQ_DATA
  bool fenced = false;            // FI_FENCE: waits for all before it
  bool awaits_peer = false;       // a rendezvous: the peer says when it is over ...
  bool awaits_letter = false;     // ... perhaps by a letter
  int error = 0;                  // positive; reported when nothing of it is outstanding
  unsigned outstanding = 0;       // lower operations
  std::uint32_t segment = 0;      // next piece to go
  std::size_t sent = 0;           // bytes in pieces before it
  std::uint64_t lower_flags = 0;  // FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  std::uint64_t message = 0;  // its number on the wire; 0: none
  std::size_t len = 0;
  std::uint32_t iov_count = 0;
  std::uint32_t range_count = 0;
  iovec iov[kIovLimit];
  RemoteRange ranges[kMaxRanges];  // kRead, kWrite: where
  RendezvousPacket packet;
  std::unique_ptr<std::byte[]> copy;  // FI_INJECT
  Buffer* atomic = nullptr;           // kUpdate, kFetch: the packet until it goes; `iov` is where results belong
  Lower<fid_mr> regions[kIovLimit];
};

// A packet in a buffer of ours: control, or a copy of (a piece of) a message.
struct Packet : Work, ListHook<Packet> {
  Packet() noexcept : Work(Kind::kPacket) {}
  Buffer* buffer = nullptr;
  std::size_t len = 0;
  Transmit* owner = nullptr;
  std::uint64_t lower_flags = 0;
};

// A long message that is being read from its sender's memory, or written to its receiver's.
struct RemoteCopy : ListHook<RemoteCopy>, ListHook<StalledTag> {
  struct Piece : Work {
    Piece() noexcept : Work(Kind::kCopy) {}
    RemoteCopy* copy = nullptr;
    iovec local{};
    void* desc = nullptr;
    RemoteRange remote;
    std::uint64_t place = 0;  // the same in the other end's own terms
  };
  static constexpr std::size_t kMaxPieces = kIovLimit + kMaxRanges;
  static_assert(kMaxPieces <= DirectLink::kMaxPieces);

  Channel* channel = nullptr;
  Transmit* transmit = nullptr;  // what is written; null: something is read
  rdm::Delivery delivery;
  rdm::Envelope envelope;
  std::uint64_t message = 0;
  int error = 0;
  std::size_t piece_count = 0;
  std::size_t issued = 0;
  std::size_t outstanding = 0;
  bool direct = false;     // without the connection ...
  std::size_t copied = 0;  // ... so many bytes so far
  Piece pieces[kMaxPieces];
  Lower<fid_mr> regions[kIovLimit];
};

// A long message that its sender was asked to write.
struct WriteTarget : ListHook<WriteTarget> {
  rdm::Delivery delivery;
  rdm::Envelope envelope;
  std::uint64_t message = 0;
  std::unique_ptr<std::byte[]> all;  // of a message that is longer than its receive
  Lower<fid_mr> regions[kIovLimit];
};

// Where a long message lies.
struct Notice {
  RendezvousHeader rendezvous;
  DirectHeader direct;
  bool has_direct = false;
};

// A message without a receive.
struct Unexpected;

// A message that arrives in pieces.
struct Assembly : ListHook<Assembly> {
  std::uint64_t message = 0;
  std::uint32_t next_segment = 0;
  std::size_t arrived = 0;
  rdm::Envelope envelope;
  rdm::Delivery delivery;            // where it goes, once somebody takes it
  Unexpected* unexpected = nullptr;  // until then
  bool discarded = false;
};

struct Unexpected : rdm::Message, ListHook<Unexpected> {
  enum class Kind : std::uint8_t { kWhole, kPieces, kRendezvous };
  Kind kind = Kind::kWhole;
  bool dead = false;  // its sender is gone and the rest of it with it
  Channel* channel = nullptr;
  Buffer* buffer = nullptr;  // it lies in the buffer that it came in ...
  const std::byte* payload = nullptr;
  std::unique_ptr<std::byte[]> storage;  // ... or in memory of its own
  Assembly* assembly = nullptr;          // kPieces: what is still arriving; null: all here
  std::uint64_t message = 0;             // kRendezvous
  Notice notice;
};

// A connection. Alive from the request on; after its end it stays until the lower provider has returned everything.
struct Channel : ListHook<Channel>, ListHook<StalledTag> {
  enum class State : std::uint8_t { kConnecting, kAccepting, kOpen, kClosed };

  State state = State::kConnecting;
  bool twin = false;  // the accepting end of a connection to ourselves
  fid_ep* ep = nullptr;
  Peer* peer = nullptr;
  std::uint64_t remote_id = 0;  // what packets to the peer bear
  std::uint32_t number = 0;     // what its packets to us bear; 0: the buffer tells whose they are
  rdm::Farewell farewell;
  std::uint64_t activity = 0;                        // operations and packets so far
  DirectLink direct;                                 // each end may read the other's memory
  std::uint8_t lane = kNoLane;                       // of the peer, on our board
  bool accesses = false;                             // the peer's memory was accessed since the last packet
  std::uint64_t sent = 0;                            // packets that the lower provider was given ...
  std::uint64_t received = 0;                        // ... and gave us
  std::uint64_t notices_put = 0, notices_taken = 0;  // on the boards
  unsigned works = 0;                                // operations that the lower provider has
  unsigned atomics = 0;                              // operations that the peer has not answered
  unsigned packet_count = 0;                         // of `packets`
  List<PostedBuffer> unposted;                       // it had no room for them, or we want no more messages
  List<Packet> packets;                              // it had no room for them
  List<RemoteCopy, StalledTag> stalled;
  List<RemoteCopy> copies;
  List<WriteTarget> targets;
  List<Assembly> assemblies;
  List<Transmit, FlightTag> flight;
  List<Unexpected> unexpected;  // those that need the connection

  // Whoever does not read our answers shall not ask for more.
  bool holds_back() const noexcept { return packet_count >= kMaxWaitingAnswers; }
  // What the application sends may go: it is open, and nobody is about to close it because it is idle.
  bool takes() const noexcept { return state == State::kOpen && !farewell.holds(); }
  // The lower provider has taken a packet; accesses before it are over when it arrives.
  void count_sent() noexcept {
    ++sent;
    accesses = false;
  }
  bool stalls() noexcept { return !unposted.empty() || !packets.empty() || !stalled.empty(); }
};

// Why the lower provider refuses an operation on a channel that was open: its end may have been seen below before the
// event that tells of it has been read.
constexpr int reason_of(ssize_t result) noexcept {
  return result == -FI_ENOTCONN ? FI_ECONNRESET : static_cast<int>(-result);
}

// Somebody with an address. Owner: the endpoint, until it closes.
struct Peer : rdm::PeerBase, ListHook<Peer> {
  std::uint32_t process = 0;
  Channel* channel = nullptr;  // what we send on
  Channel* twin = nullptr;     // address is our own: where that arrives
  Deadline deadline;           // of the attempt to connect
  Deadline retry_at;           // we lost against a request of the peer's that is yet to come
  List<Transmit> waiting;      // in order
};

}  // namespace weft::rxm
