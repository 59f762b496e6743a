// SPDX-License-Identifier: BSD-2-Clause
// The objects that all parts of an endpoint use: its peers, the connections to them with the records of the operations
// on them, buffers and services. Owner: the endpoint. The engine's mutex guards them.
#pragma once

#include <memory>
#include <new>
#include <vector>

#include "base/deadline.h"
#include "base/list.h"
#include "objects/completion_routes.h"
#include "objects/peer_memory.h"
#include "rdm/linked_peer.h"
#include "rxm/domain.h"
#include "rxm/logging.h"
#include "rxm/operations.h"
#include "rxm/remote_count.h"

namespace weft::rxm {

class PostedBuffers;

// Short messages of a connection whose receiver has little memory for unexpected ones; decision 0017.
struct Scarcity {
  bool supported = false;          // by the peer: PacketType::kScarce
  bool reported = false;           // this end has reported to the peer that its memory is scarce
  bool announces = false;          // the peer has reported the same: our messages are announced ...
  List<Transmit, FlightTag> kept;  // ... and these are complete for the application, but not fetched
};

// The count of the peer's receives, where a packet without a receive ends the connection; decision 0020.
struct Credits {
  bool counted = false;
  std::uint64_t left = UINT64_MAX;  // not counted: never used up
  std::uint32_t unreported = 0;     // receives posted here that were not reported to the peer

  bool may_send() const noexcept { return left > 1; }  // the last one is for a report
  bool are_due() const noexcept { return counted && unreported >= kReportedReceives; }
  void agree(std::uint8_t flow_control, std::uint32_t receives) noexcept {
    if (flow_control != kFlowControl || receives == 0) return;
    counted = true;
    left = receives;
  }
};

// Operations that the lower provider has.
struct LowerWorks {
  unsigned sends = 0;  // all but the receives
  unsigned receives = 0;

  unsigned all() const noexcept { return sends + receives; }
};

// Exists from the request on; after its end it stays until the lower provider has returned all operations.
struct Channel : ListHook<Channel>, ListHook<RetryTag> {
  enum class State : std::uint8_t { kConnecting, kAccepting, kOpen, kClosed };

  State state = State::kConnecting;
  fid_ep* ep = nullptr;
  LowerSide* side = nullptr;              // the provider of `ep`
  const PeerMemoryOps* memory = nullptr;  // the table of `ep`; null: it has none
  Peer* peer = nullptr;
  std::uint64_t remote_id = 0;  // the number in packets to the peer
  std::uint32_t number = 0;     // the number in packets from the peer; 0: the posted buffer identifies the connection
  bool has_answers = false;     // the peer supports PacketType::kAnsweredEager and kAnsweredSegment
  bool offers_local = false;    // our request has local_mark()
  rdm::IdleClose idle_close;
  std::uint64_t activity = 0;  // operations and packets so far
  LowerWorks works;
  unsigned atomics = 0;                       // atomic operations without a response
  unsigned packet_count = 0;                  // entries of `packets`
  List<PostedBuffer> unposted;                // refused by the lower provider, or held by back-pressure
  List<PostedBuffer> stalled;                 // arrived packets that wait for memory, in order
  List<Packet> packets;                       // refused by the lower provider
  List<RemoteCopy, RetryTag> waiting_copies;  // refused by the lower provider, or another slice waits
  List<RemoteCopy> copies;
  List<WriteTarget> targets;
  List<Assembly> assemblies;
  List<Transmit, FlightTag> flight;
  Scarcity scarcity;
  Credits credits;
  List<Unexpected> unexpected;  // unexpected messages that need the connection

  ~Channel();
  // A peer that does not read our responses must not send more requests.
  bool is_throttled() const noexcept { return packet_count >= kMaxQueuedResponses; }
  // Operations of the application may start: the connection is open, and no idle close is under way.
  bool can_send() const noexcept { return state == State::kOpen && !idle_close.holds(); }
  bool has_retries() noexcept {
    return !unposted.empty() || !packets.empty() || !waiting_copies.empty() || credits.are_due();
  }
};

// A remote endpoint. Owner: the endpoint, as long as it is in use.
struct Peer : rdm::LinkedPeer<Channel>, ListHook<Peer> {
  Peer() noexcept : LinkedPeer(on_room) {}
  static void on_room(PeerMemory& memory) noexcept;

  PostedBuffers* posted = nullptr;  // the endpoint's, once there was a connection
  // Requested by another process with the peer's address. It replaces `channel` after one round in which it stays open.
  Channel* successor = nullptr;
  std::uint32_t successor_process = 0;
  bool successor_settled = false;  // the successor was open in an earlier round
  Deadline retry_at;               // LinkState::kRejected
  List<Transmit> waiting;          // in order

  bool in_use() const noexcept { return LinkedPeer::in_use() || !waiting.empty() || ListHook<Peer>::linked(); }
};

inline Channel::~Channel() {
  if (peer != nullptr) --peer->channels;
}

// The links to peers, as Sender and Receiver use them.
class LinkControl {
 public:
  // Sends a request unless there is a connection, or one is being made. The caller reports an immediate failure.
  virtual Status connect(Peer& peer) noexcept = 0;
  // Closes the connection because of an error of the peer's.
  virtual void protocol_error(Channel& channel, const char* what) noexcept = 0;
  virtual void on_idle_close(Channel& channel, std::uint64_t message) noexcept = 0;

 protected:
  ~LinkControl() = default;
};

// The buffers of one endpoint; their memory is that of the largest number in use at once. The engine's mutex guards it.
// The lower provider must have returned all of them before the end.
class Buffers {
 public:
  // `side`: the buffers are for its packets.
  Buffers(LowerSide& side, std::size_t size) noexcept
      : side_(side), size_(size), distance_((size + kAlignment - 1) / kAlignment * kAlignment) {}

  std::size_t size() const noexcept { return size_; }
  // nullptr when memory runs out.
  Buffer* take() noexcept {
    if (free_.empty() && !grow()) {
      log_lack_of_memory();
      return nullptr;
    }
    return &free_.pop_front();
  }
  static void give_back(Buffer& buffer) noexcept { buffer.pool->free_.push_front(buffer); }

 private:
  struct Slab {
    std::unique_ptr<std::byte[]> bytes;
    Lower<fid_mr> region;
    std::unique_ptr<Buffer[]> buffers;
  };
  [[gnu::noinline]] bool grow() noexcept {
    Slab slab;
    slab.bytes.reset(new (std::nothrow) std::byte[distance_ * kBuffersPerSlab]);
    slab.buffers.reset(new (std::nothrow) Buffer[kBuffersPerSlab]);
    if (slab.bytes == nullptr || slab.buffers == nullptr) return false;
    void* desc = nullptr;
    if (side_.registers) {
      auto region =
          side_.register_memory(slab.bytes.get(), distance_ * kBuffersPerSlab, FI_SEND | FI_RECV, FI_MR_WEFT_UNCACHED);
      if (!region) return false;
      slab.region = std::move(*region);
      desc = fi_mr_desc(slab.region.get());
    }
    for (std::size_t i = 0; i < kBuffersPerSlab; ++i) {
      slab.buffers[i].bytes = slab.bytes.get() + i * distance_;
      slab.buffers[i].desc = desc;
      slab.buffers[i].pool = this;
    }
    try {
      slabs_.push_back(std::move(slab));
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (std::size_t i = 0; i < kBuffersPerSlab; ++i) free_.push_back(slabs_.back().buffers[i]);
    return true;
  }

  static constexpr std::size_t kAlignment = alignof(PacketHeader);
  LowerSide& side_;
  const std::size_t size_;      // bytes of a buffer
  const std::size_t distance_;  // bytes from one to the next
  std::vector<Slab> slabs_;
  List<Buffer> free_;
};

struct EndpointServices {
  EndpointServices(Domain& domain_of, CompletionRoutes& bound, Ref<AddressVector>& peers_of, std::size_t transmits,
                   bool names_senders, const bool& may_share_memory) noexcept
      : domain(domain_of),
        engine(domain.engine()),
        devices(domain.devices()),
        eager_limit(domain.fabric().parameters.eager_limit),
        tx_size(transmits),
        names_sources(names_senders),
        shares_memory(may_share_memory),
        routes(bound),
        vector(peers_of),
        buffers(domain.lower(), sizeof(RendezvousPacket) + eager_limit),
        local_buffers(domain.local() != nullptr ? *domain.local() : domain.lower(), buffers.size()) {}

  Peer* peer_of(fi_addr_t handle) noexcept { return peers.find(*vector, handle); }
  fi_addr_t name_of(Peer& peer) noexcept { return names_sources ? peers.name_of(*vector, peer) : FI_ADDR_NOTAVAIL; }
  Buffers& buffers_of(const Channel& channel) noexcept {
    return channel.side == &domain.lower() ? buffers : local_buffers;
  }
  // The next round must do more than read the lower queue.
  void note_work() noexcept { engine.note_work(*driven); }
  void retry_later(Channel& channel) noexcept {
    if (!retries.linked(channel)) retries.push_back(channel);
    note_work();
  }
  // As retry_later(), for packets that found no room, unless they wait for a report of the peer.
  void retry_packets_later(Channel& channel) noexcept {
    if (channel.credits.may_send()) retry_later(channel);
  }
  // Registers memory that a peer accesses to move a message. Such accesses do not count as remote accesses.
  Result<Lower<fid_mr>> register_message(LowerSide& side, const void* buf, std::size_t len, uint64_t access) noexcept {
    auto region = domain.register_memory(side, buf, len, access);
    RemoteCount* const count = ((access & FI_REMOTE_READ) != 0 ? remote_reads : remote_writes).get();
    if (!region || count == nullptr) return region;
    const uint64_t remote = access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
    const int error = fi_mr_bind(region->get(), count->hidden(), remote);
    if (error != 0) return failure(Status(error));
    return region;
  }

  Domain& domain;
  Engine& engine;                // the domain's
  DeviceMemory* const devices;   // the domain's; null: none
  LinkControl* links = nullptr;  // set by the endpoint, as `driven` is
  Driven* driven = nullptr;      // the endpoint
  const std::size_t eager_limit;
  std::size_t tx_size;        // operations that may be outstanding
  const bool names_sources;   // FI_SOURCE
  const bool& shares_memory;  // FI_OPT_SHARED_MEMORY_PERMITTED
  CompletionRoutes& routes;   // the endpoint's, as the vector is
  Ref<AddressVector>& vector;
  std::unique_ptr<RemoteCount> remote_reads, remote_writes;  // accesses by peers; null: not counted
  Buffers buffers, local_buffers;                            // the latter for peers of this host
  rdm::PeerTable<Peer> peers;
  List<Channel> channels;
  List<Channel, RetryTag> retries;  // channels with operations that the lower provider had no room for
};

}  // namespace weft::rxm
