// SPDX-License-Identifier: BSD-2-Clause
// Peers and connections to them: opened for the first operation, accepted when the peer connects first; fi_cm(3).
// rdm/peer_link.h decides about requests that cross, restarted peers and the ends of connections (peer_links.cc,
// connections.cc). Idle connections are closed, and opened again by the next operation; rdm/peer_link.h.
#pragma once

#include <rdma/fi_eq.h>

#include <string_view>
#include <unordered_map>

#include "rxm/peers/local_end.h"

namespace weft::rxm {

// Owner: the endpoint. The engine's mutex guards it.
class PeerLinks final : public LinkControl {
 public:
  PeerLinks(EndpointServices& services, fi_info& lower, Packets& packets, PostedBuffers& posted, Sender& sender,
            Rendezvous& rendezvous, Receiver& receiver, Completions& completions) noexcept;

  // Opens a listener at once, because applications exchange names before they enable the endpoint.
  Status open() noexcept;
  Status listen() noexcept;
  Status read_own_name() noexcept;
  const Address& own() const noexcept { return own_; }
  fid_pep* listener() const noexcept { return listener_.get(); }
  fid_eq* events() const noexcept { return events_.get(); }

  // Reads connection events in turn, or if some are expected.
  void progress(bool in_turn) noexcept {
    if (in_turn || !connecting_.empty()) read_events();
  }
  // Connection events are awaited, or connections can be freed soon.
  bool has_work() noexcept { return !connecting_.empty() || !dying_.empty(); }
  Deadline next_deadline() noexcept;
  // A successor is open: the next round lets it replace the peer's connection.
  bool has_successor() const noexcept;
  // Frees the connections whose operations the lower provider has returned.
  void reap() noexcept {
    if (!dying_.empty()) free_unused();
  }
  // A context closes: the application may free the memory of its operations, so connections that carry one are closed.
  void abandon(CompletionRoutes& routes, const rdm::ReceiveSide& context) noexcept;
  // Reads the queues of all connections.
  void read_completions() noexcept;
  // The endpoint closes.
  void close() noexcept;
  void close_unreturned() noexcept;

  // LinkControl.
  Status connect(Peer& peer) noexcept override;
  void protocol_error(Channel& channel, const char* what) noexcept override;
  void on_idle_close(Channel& channel, std::uint64_t message) noexcept override;

 private:
  // The terms of a request that is accepted.
  struct Terms {
    std::uint64_t remote_id;
    std::uint32_t receives;  // posted by the peer for packets of ours
    std::uint8_t flow_control;
    std::uint32_t process;
    bool beside;
    bool succeeds;     // another process requested it: Peer::successor
    bool closes_idle;  // both ends close idle connections
    bool follows_scarcity;
    bool has_answers;
  };

  static rdm::LinkState link_of(const Peer& peer) noexcept {
    return peer.link < rdm::LinkState::kOpen ? peer.link : rdm::open_link(peer.channel->idle_close);
  }
  void step(Peer& peer, rdm::LinkEvent event, int error = 0, std::string_view sentence = {}) noexcept;
  void connect_or_fail(Peer& peer) noexcept;
  void start_deadline(Peer& peer) noexcept;
  void stop_timers(Peer& peer) noexcept;
  void fail_waiting(Peer& peer, int error, std::string_view sentence = {}) noexcept;
  void check_deadlines() noexcept;

  Result<Channel*> open_channel(Peer& peer, LowerSide& side, fi_info* info) noexcept;
  int open_endpoint(Channel& channel, fi_info* info) noexcept;
  void close_channel(Channel& channel, int error) noexcept;
  void end_channel(Channel& channel, rdm::LinkEvent event, int error, std::string_view sentence = {}) noexcept;

  [[gnu::noinline]] void free_unused() noexcept {
    dying_.for_each([](Channel& channel) {
      if (channel.works.all() == 0) delete &channel;
    });
  }
  void read_events() noexcept;
  void read_events(fid_eq* queue) noexcept;
  void on_event(uint32_t event, const fi_eq_cm_entry& entry, std::size_t data_len) noexcept;
  void on_event_error(fid_eq* queue) noexcept;
  void on_connected(Channel& channel, const void* data, std::size_t len) noexcept;
  Status request(Peer& peer, const LocalPlace* place, bool offers) noexcept;
  void on_request(LowerSide& side, fi_info* info, const void* data, std::size_t len) noexcept;
  void reject(LowerSide& side, const fi_info& info, Reason reason) noexcept;
  template <class Data>
  void describe_receives(Channel& channel, Data& data) noexcept;
  bool accept(Peer& peer, LowerSide& side, fi_info* info, const Terms& terms) noexcept;
  Channel* channel_of(const ::fid* fid) noexcept;

  // Peers of this host, whose requests change from the device to tcp.
  bool is_local(const LowerSide& side) const noexcept { return &side == services_.domain.local(); }
  bool may_be_local(const Address& peer) const noexcept {
    return services_.domain.local() != nullptr && services_.shares_memory && !lacks_local_ && !own_.is_any() &&
           peer.same_host(own_);
  }
  LocalEnd* local_end() noexcept;
  bool invite(const fi_info& info) noexcept;
  void redirect(Channel& channel, const LocalPlace* place) noexcept;
  Completions& completions_of(const Channel& channel) noexcept {
    return is_local(*channel.side) ? local_->completions : completions_;
  }

  void settle_successors() noexcept;
  bool closes_idle() const noexcept { return idle_timeout_ != Clock::duration::zero(); }
  void check_idle() noexcept;

  EndpointServices& services_;
  Packets& packets_;
  PostedBuffers& posted_;
  Sender& sender_;
  Rendezvous& rendezvous_;
  Receiver& receiver_;
  Completions& completions_;
  fi_info& lower_info_;
  const rdm::LinkTimeouts timeouts_;    // `connect`: to reach a host and get its application's answer
  const Clock::duration idle_timeout_;  // zero: idle connections stay open
  unsigned successors_ = 0;             // in all
  Address own_;
  Lower<fid_eq> events_;
  Lower<fid_pep> listener_;
  std::unique_ptr<LocalEnd> local_;  // null: there was no peer of this host
  bool lacks_local_ = false;         // local_ cannot be opened
  std::unordered_map<const ::fid*, Channel*> channels_by_fid_;
  List<Peer> connecting_;  // peers without an open connection, for deadlines
  List<Channel> dying_;
  Deadline idle_check_;
};

}  // namespace weft::rxm
