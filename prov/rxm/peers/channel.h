// SPDX-License-Identifier: BSD-2-Clause
// A peer, and a connection to it with the records of the operations on it. The endpoint owns all of them, the engine's
// mutex guards them.
#pragma once

#include "base/deadline.h"
#include "base/list.h"
#include "rdm/idle_close.h"
#include "rdm/peer_link.h"
#include "rdm/peer_table.h"
#include "rxm/local/direct_link.h"
#include "rxm/messages/operations.h"

namespace weft::rxm {

class PostedBuffers;

// Exists from the request on; after its end it stays until the lower provider has returned all operations.
struct Channel : ListHook<Channel>, ListHook<RetryTag> {
  enum class State : std::uint8_t { kConnecting, kAccepting, kOpen, kClosed };

  State state = State::kConnecting;
  fid_ep* ep = nullptr;
  Peer* peer = nullptr;
  std::uint64_t remote_id = 0;  // the number in packets to the peer
  std::uint32_t number = 0;     // the number in packets from the peer; 0: the posted buffer identifies the connection
  rdm::IdleClose idle_close;
  std::uint64_t activity = 0;                        // operations and packets so far
  DirectLink direct;                                 // each end may read the other's memory
  std::uint8_t slot = kNoSlot;                       // the peer's, on our board
  bool accesses = false;                             // the peer's memory was accessed since the last packet
  std::uint64_t sent = 0;                            // packets given to the lower provider ...
  std::uint64_t received = 0;                        // ... and received from it
  std::uint64_t notices_put = 0, notices_taken = 0;  // on the boards
  unsigned works = 0;                                // operations that the lower provider has
  unsigned atomics = 0;                              // atomic operations without a response
  unsigned packet_count = 0;                         // entries of `packets`
  List<PostedBuffer> unposted;                       // refused by the lower provider, or held by back-pressure
  List<PostedBuffer> stalled;                        // arrived packets that wait for memory, in order
  List<Packet> packets;                              // refused by the lower provider
  List<RemoteCopy, RetryTag> waiting_copies;         // refused by the lower provider, or another slice waits
  List<RemoteCopy> copies;
  List<WriteTarget> targets;
  List<Assembly> assemblies;
  List<Transmit, FlightTag> flight;
  List<Unexpected> unexpected;  // those that need the connection

  // A peer that does not read our responses must not send more requests.
  bool is_throttled() const noexcept { return packet_count >= kMaxQueuedResponses; }
  // Operations of the application may start: the connection is open, and no idle close is under way.
  bool can_send() const noexcept { return state == State::kOpen && !idle_close.holds(); }
  // The lower provider has accepted a packet; accesses before it have ended when it arrives.
  void count_sent() noexcept {
    ++sent;
    accesses = false;
  }
  bool has_retries() noexcept { return !unposted.empty() || !packets.empty() || !waiting_copies.empty(); }
};

// A remote endpoint. Owner: the endpoint, until it closes.
struct Peer : rdm::PeerBase, messages::PeerMemory, ListHook<Peer> {
  Peer() noexcept : PeerMemory(on_room) {}
  static void on_room(PeerMemory& memory) noexcept;

  PostedBuffers* posted = nullptr;  // the endpoint's, once there was a connection
  std::uint32_t process = 0;
  rdm::LinkState link = rdm::LinkState::kNone;
  rdm::FirstContact contact;
  Channel* channel = nullptr;   // for sending
  Channel* loopback = nullptr;  // the address is our own: the receiving end of `channel`
  // Requested by another process with the peer's address. It replaces `channel` once that process proves to live.
  Channel* successor = nullptr;
  std::uint32_t successor_process = 0;
  bool successor_settled = false;  // it was open in an earlier round
  Deadline deadline;               // for connecting
  Deadline retry_at;               // LinkState::kRejected
  List<Transmit> waiting;          // in order
};

}  // namespace weft::rxm
