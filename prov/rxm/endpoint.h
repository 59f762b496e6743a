// SPDX-License-Identifier: BSD-2-Clause
// Reliable-datagram endpoints (FI_EP_RDM) over connections: bindings and options of fi_endpoint(3), progress, and the
// calls of fi_msg(3), fi_tagged(3), fi_rma(3) (objects/transfer_calls.h) and fi_atomic(3) (objects/atomic_calls.h). Its
// parts do the work: messages/sender.h and messages/receiver.h, peers/peer_links.h.
//
// Before the endpoint is enabled every transfer call answers -FI_EOPBADSTATE: the tables change, so the calls check no
// state. Owner: its C handle. The mutex of the domain's engine guards everything.
#pragma once

#include "rdm/endpoint_base.h"
#include "rxm/logging.h"
#include "rxm/peers/peer_links.h"

namespace weft::rxm {

class Endpoint final : public rdm::EndpointBase<Endpoint, Engine>, private Driven {
 public:
  static int open(Domain& domain, const fi_info* info, fid_ep** ep, void* context);
  Status check(const fi_info& info) const { return services_.domain.check(info); }
  static fi_provider& provider() noexcept { return rxm::provider(); }

  // Slot of fi_ops.
  int close();

  // Slot of fi_ops_ep.
  ssize_t tx_size_left() noexcept;

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);

  // rdm::ReliableEndpointCore and rdm::AtomicTarget, with the mutex of engine() held but for transmit() and update().
  int enable_contexts();
  void set_tx_size(std::size_t size) noexcept { EndpointBase::set_tx_size(services_.tx_size = size); }
  void share_numbers_of(rdm::PeerTable<rdm::PeerBase>* numbers) noexcept { services_.peers.share_numbers_of(numbers); }
  Peer* peer_of(fi_addr_t handle) noexcept { return services_.peer_of(handle); }
  void abandon(CompletionRoutes& routes, const rdm::ReceiveSide& context) noexcept { links_.abandon(routes, context); }
  bool holds_injected(const CompletionRoutes* routes) noexcept;
  ssize_t transmit(TransmitRequest&& request) noexcept { return sender_.transmit(std::move(request)); }
  ssize_t update(const AtomicRequest& request) noexcept { return sender_.update(request); }
  std::size_t atomic_count(AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept {
    return rdm::atomic_count(services_.domain.atomic_limit(), kind, datatype, operation);
  }

 private:
  friend EndpointBase;

  Endpoint(Domain& domain, const fi_info& info, InfoPtr lower, void* context);
  ~Endpoint() = default;

  Status open_lower() noexcept;
  Status bind_queue(CompletionQueue& queue, uint64_t flags) noexcept;
  Status bind_counter(Counter& counter, uint64_t flags) noexcept;
  // Driven.
  std::size_t read_lower_queue() noexcept override { return completions_.read(); }
  bool progress(bool in_turn) noexcept override;
  fid_cq* lower_queue() noexcept override { return completions_.queue(); }
  fid_eq* lower_events() noexcept override { return links_.events(); }
  Deadline next_deadline() noexcept override { return links_.next_deadline(); }
  // The lower provider reports when an operation ends, and has room then.
  bool has_pending_work() noexcept override {
    for (const Channel& channel : services_.retries)
      if (channel.works.sends == 0) return true;
    return posted_.may_post_left_over() || links_.has_successor();
  }
  void retry(Channel& channel) noexcept;

  const InfoPtr lower_info_;

  EndpointServices services_;
  Receiver receiver_;
  rdm::ReceiveSide receives_;
  Packets packets_;
  PostedBuffers posted_;
  Sender sender_;
  Rendezvous rendezvous_;
  Completions completions_;
  PeerLinks links_;
};

}  // namespace weft::rxm
