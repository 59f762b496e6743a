// SPDX-License-Identifier: BSD-2-Clause
// Reliable-datagram endpoints (FI_EP_RDM) of tcp: bindings and options of fi_endpoint(3), names, transfers
// (endpoint.cc), peers and the connections to them (peers.cc). A channel is one connection; its
// stream is the same as a connected endpoint's, so only tcp's own headers travel.
//
// Until it is enabled every transfer call answers -FI_EOPBADSTATE: enabling replaces the tables, so calls check no
// state. Owner: its C handle. The mutex of the domain's engine guards everything.
#pragma once

#include <rdma/fi_endpoint.h>

#include <memory>
#include <string_view>

#include "base/pool.h"
#include "rdm/endpoint_base.h"
#include "tcp/connection/listener.h"
#include "tcp/domain.h"
#include "tcp/logging.h"
#include "tcp/reliable/channel.h"
#include "tcp/reliable/greeting.h"

namespace weft::tcp {

class PeerListener;

class ReliableEndpoint final : public rdm::EndpointBase<ReliableEndpoint, Engine>, private rdm::Protocol {
 public:
  static int open(Domain& domain, const fi_info* info, fid_ep** ep, void* context);
  static fi_provider& provider() noexcept { return tcp::provider(); }
  Status check(const fi_info& info) const { return domain_.fabric().check(FI_EP_RDM, info); }

  // Slot of fi_ops.
  int close();

  // Slot of fi_ops_ep: every peer has a queue of its own.
  ssize_t tx_size_left() noexcept { return enabled_ ? static_cast<ssize_t>(tx_size()) : -FI_EOPBADSTATE; }

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);

  // For channels, with the engine's mutex held.
  const Parameters& parameters() const noexcept { return domain_.fabric().parameters; }
  Domain& domain() noexcept { return domain_; }
  rdm::ReceiveSide& receives() noexcept { return receives_; }
  std::uint32_t process() const noexcept { return process_; }
  const Address& own() const noexcept { return own_; }
  fi_addr_t name_of(Peer& peer) noexcept { return names_sources_ ? peers_.name_of(*vector_, peer) : FI_ADDR_NOTAVAIL; }
  void take(rdm::Message& message, const rdm::Delivery& delivery) noexcept override;
  void discard(rdm::Message& message) noexcept override;
  fi_addr_t source_of(const rdm::Message& message) noexcept override {
    return name_of(*static_cast<const Unclaimed&>(message).peer);
  }

  // Events of a channel. They must not destroy it: its handlers are running. `why` may be null.
  void on_open(Channel& channel) noexcept {
    if (channel.peer().channel == &channel) step(channel.peer(), rdm::LinkEvent::kOpened);
  }
  void on_unreachable(Channel& channel, int error, const char* why) noexcept;
  void on_refused(Channel& channel) noexcept;
  void on_channel_end(Channel& channel, int error) noexcept;
  void on_peer_timer(Peer& peer) noexcept;
  void on_idle(Channel& channel) noexcept;
  // A peer's request.
  void on_request(ConnectRequest& request) noexcept;

  // Whether idle connections with the peer are closed.
  bool closes_idle(const Peer& peer) const noexcept {
    return idle_timeout_ != Clock::duration::zero() && !(peer.address == own_);
  }
  Clock::duration idle_timeout() const noexcept { return idle_timeout_; }

  // ReliableEndpointCore and AtomicTarget, with the mutex of engine() held but for transmit() and update().
  int enable_contexts();
  void set_tx_size(std::size_t size) noexcept;
  void share_numbers_of(rdm::PeerTable<rdm::PeerBase>* numbers) noexcept { peers_.share_numbers_of(numbers); }
  Peer* peer_of(fi_addr_t handle) noexcept { return peers_.find(*vector_, handle); }
  void abandon(CompletionRoutes& routes, const rdm::ReceiveSide& context) noexcept;
  bool holds_injected(const CompletionRoutes* routes) noexcept;
  ssize_t transmit(TransmitRequest&& request) noexcept;
  ssize_t update(const AtomicRequest& request) noexcept;
  std::size_t atomic_count(AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept {
    return rdm::atomic_count(kMaxAtomicBytes, kind, datatype, operation);
  }

 private:
  friend EndpointBase;

  ReliableEndpoint(Domain& domain, const fi_info& info, const Address& own, UniqueFd socket, void* context);
  ~ReliableEndpoint() = default;

  CompletionRoutes& routes_of(const TransmitRequest& request) noexcept {
    return request.routes != nullptr ? *request.routes : routes_;
  }
  ssize_t submit(const TransmitRequest& request, std::size_t len) noexcept;
  ssize_t refuse_atomic(Peer& peer, const TransmitRequest& request) noexcept;
  ssize_t send_on(Channel& channel, const TransmitRequest& request, bool has_waited = false) noexcept;
  ssize_t wait_for(Peer& peer, const TransmitRequest& request, std::size_t len) noexcept;

  // peers.cc
  Channel* make_channel(Peer& peer) noexcept;
  void close_channel(Channel& channel, int reason) noexcept {
    detach(channel);
    channel.close(reason);
  }
  void detach(Channel& channel) noexcept;
  void reap() noexcept {
    while (!dying_.empty()) delete &dying_.pop_front();
  }
  static rdm::LinkState link_of(const Peer& peer) noexcept;
  void step(Peer& peer, rdm::LinkEvent event, int error = 0, std::string_view sentence = {}) noexcept;
  Status connect(Peer& peer) noexcept;
  rdm::LinkTimeouts timeouts() const noexcept {
    using std::chrono::milliseconds;
    return {.start = milliseconds(parameters().start_timeout_ms),
            .connect = milliseconds(parameters().connect_timeout_ms)};
  }
  void flush(Peer& peer) noexcept;
  void stop_timers(Peer& peer) noexcept {
    peer.deadline = Deadline();
    engine().clear_deadline(peer.timer);
  }
  void fail_waiting(Peer& peer, int error, std::string_view sentence = {}) noexcept;
  void connect_or_fail(Peer& peer) noexcept;
  void check_channels() noexcept;
  void fail(WaitingTransmit& waiting, int error, std::string_view sentence = {}) noexcept;
  void accept(Peer& peer, ConnectRequest& request, const Greeting& greeting, bool beside) noexcept;

  Domain& domain_;
  const uint32_t addr_format_;
  const std::uint32_t process_;
  const Clock::duration idle_timeout_;
  const bool names_sources_;  // FI_SOURCE
  Address own_;
  UniqueFd socket_;  // bound to own_; the listener's once enabled
  std::unique_ptr<PeerListener> listener_;
  Pool<WaitingTransmit> waiting_;
  rdm::PeerTable<Peer> peers_;
  // Armed while the endpoint is enabled, if idle connections are to be closed; and when a channel was detached.
  Timer<ReliableEndpoint, &ReliableEndpoint::check_channels> channels_timer_{*this};
  List<Channel> channels_;
  List<Channel> dying_;  // deleted when none of their handlers can be running
  rdm::ReceiveSide receives_;
};

// Listens for connection requests of an endpoint's peers.
class PeerListener final : public Listener {
 public:
  PeerListener(ReliableEndpoint& endpoint, Engine& engine, UniqueFd socket, const Address& local,
               const Parameters& parameters) noexcept
      : Listener(engine, std::move(socket), local, parameters, parameters.backlog), endpoint_(endpoint) {}
  ~PeerListener() override = default;

 private:
  void on_request(ConnectRequest& request) noexcept override;

  ReliableEndpoint& endpoint_;
};

}  // namespace weft::tcp
