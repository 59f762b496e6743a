// SPDX-License-Identifier: BSD-2-Clause
// The objects that all parts of an endpoint use. Owner: the endpoint. The engine's mutex guards them.
#pragma once

#include <memory>

#include "objects/completion_routes.h"
#include "rxm/domain.h"
#include "rxm/messages/buffers.h"
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
