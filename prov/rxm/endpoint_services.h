// SPDX-License-Identifier: BSD-2-Clause
// The objects that all parts of an endpoint use. Owner: the endpoint. The engine's mutex guards them.
#pragma once

#include <memory>
#include <new>
#include <vector>

#include "objects/completion_routes.h"
#include "rxm/domain.h"
#include "rxm/peers/channel.h"
#include "rxm/remote_count.h"

namespace weft::rxm {

// The links to peers, as those see them who send and receive.
class LinkControl {
 public:
  // Sends a request unless there is a connection, or will be. The caller reports an immediate failure.
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
  Buffers(Domain& domain, std::size_t size) noexcept : domain_(domain), size_(size) {}

  std::size_t size() const noexcept { return size_; }
  // nullptr when memory runs out.
  Buffer* take() noexcept {
    if (free_.empty() && !grow()) return nullptr;
    return &free_.pop_front();
  }
  void give_back(Buffer& buffer) noexcept { free_.push_front(buffer); }

 private:
  struct Slab {
    std::unique_ptr<std::byte[]> bytes;
    Lower<fid_mr> region;
    std::unique_ptr<Buffer[]> buffers;
  };
  [[gnu::noinline]] bool grow() noexcept {
    Slab slab;
    slab.bytes.reset(new (std::nothrow) std::byte[size_ * kBuffersPerSlab]);
    slab.buffers.reset(new (std::nothrow) Buffer[kBuffersPerSlab]);
    if (slab.bytes == nullptr || slab.buffers == nullptr) return false;
    void* desc = nullptr;
    if (domain_.registers_locally()) {
      auto region = domain_.register_memory(slab.bytes.get(), size_ * kBuffersPerSlab, FI_SEND | FI_RECV);
      if (!region) return false;
      slab.region = std::move(*region);
      desc = fi_mr_desc(slab.region.get());
    }
    for (std::size_t i = 0; i < kBuffersPerSlab; ++i) {
      slab.buffers[i].bytes = slab.bytes.get() + i * size_;
      slab.buffers[i].desc = desc;
    }
    try {
      slabs_.push_back(std::move(slab));
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (std::size_t i = 0; i < kBuffersPerSlab; ++i) free_.push_back(slabs_.back().buffers[i]);
    return true;
  }

  Domain& domain_;
  const std::size_t size_;
  std::vector<Slab> slabs_;
  List<Buffer> free_;
};

struct EndpointServices {
  EndpointServices(Domain& domain_of, CompletionRoutes& bound, Ref<AddressVector>& peers_of, std::size_t transmits,
                   bool names_senders) noexcept
      : domain(domain_of),
        engine(domain.engine()),
        eager_limit(domain.fabric().parameters.eager_limit),
        tx_size(transmits),
        names_sources(names_senders),
        routes(bound),
        vector(peers_of),
        buffers(domain, sizeof(RendezvousPacket) + eager_limit) {}

  Peer* peer_of(fi_addr_t handle) noexcept { return peers.find(*vector, handle); }
  fi_addr_t name_of(Peer& peer) noexcept { return names_sources ? peers.name_of(*vector, peer) : FI_ADDR_NOTAVAIL; }
  void retry_later(Channel& channel) noexcept {
    if (!retries.linked(channel)) retries.push_back(channel);
  }
  // Registers memory that a peer accesses to move a message. Such accesses do not count as remote accesses.
  Result<Lower<fid_mr>> register_message(const void* buf, std::size_t len, uint64_t access) noexcept {
    auto region = domain.register_memory(buf, len, access);
    RemoteCount* const count = ((access & FI_REMOTE_READ) != 0 ? remote_reads : remote_writes).get();
    if (!region || count == nullptr) return region;
    const uint64_t remote = access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
    const int error = fi_mr_bind(region->get(), count->hidden(), remote);
    if (error != 0) return failure(Status(error));
    return region;
  }

  Domain& domain;
  Engine& engine;                // the domain's
  LinkControl* links = nullptr;  // set by the endpoint
  const std::size_t eager_limit;
  std::size_t tx_size;       // operations that may be outstanding
  const bool names_sources;  // FI_SOURCE
  CompletionRoutes& routes;  // the endpoint's, as the vector is
  Ref<AddressVector>& vector;
  std::unique_ptr<RemoteCount> remote_reads, remote_writes;  // accesses by peers; null: not counted
  Buffers buffers;
  rdm::PeerTable<Peer> peers;
  List<Channel> channels;
  List<Channel, RetryTag> retries;  // channels with operations that the lower provider had no room for
};

}  // namespace weft::rxm
