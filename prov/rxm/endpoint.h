// SPDX-License-Identifier: BSD-2-Clause
// Reliable-datagram endpoints (FI_EP_RDM) over connections: bindings and options of fi_endpoint(3) (endpoint.cc), the
// calls of fi_msg(3), fi_tagged(3), fi_rma(3) (rdm/transfer_calls.h) and fi_atomic(3) (rdm/atomic_calls.h), peers and
// their connections (connections.cc), what goes out (transmit.cc) and what comes in (receive.cc, rendezvous.cc,
// direct_reads.cc, notices.cc, atomics.cc).
//
// Until it is enabled every transfer call answers -FI_EOPBADSTATE: the tables change, so the calls check no state.
// Owner: its C handle. The mutex of the domain's engine guards everything.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi/bridge.h"
#include "base/pool.h"
#include "base/ref.h"
#include "objects/address.h"
#include "objects/completion_routes.h"
#include "rdm/atomic_calls.h"
#include "rdm/atomics.h"
#include "rdm/endpoint_calls.h"
#include "rdm/receive_side.h"
#include "rdm/scalable_endpoint.h"
#include "rdm/shared_contexts.h"
#include "rxm/buffers.h"
#include "rxm/channel.h"
#include "rxm/engine.h"
#include "rxm/mailbox.h"
#include "rxm/notice_board.h"
#include "rxm/queues.h"

namespace weft::rxm {

class Domain;

using rdm::Operation;
using rdm::TransmitRequest;

using rdm::AtomicRequest;

class Endpoint final : public rdm::AtomicCalls<Endpoint>, private Driven, private rdm::Protocol {
 public:
  using EngineType = Engine;
  using VectorType = AddressVector;
  template <class T>
  using Calls = rdm::AtomicCalls<T>;

  static int open(Domain& domain, const fi_info* info, fid_ep** ep, void* context);
  static int open_scalable(Domain& domain, const fi_info* info, fid_ep** sep, void* context);
  static const fi_ops* fid_ops() noexcept;

  // Slots of fi_ops.
  int close();
  int bind(::fid* object, uint64_t flags);

  // Slots of fi_ops_ep.
  ssize_t rx_size_left() noexcept;
  ssize_t tx_size_left() noexcept;

  CompletionRoutes& routes() noexcept { return routes_; }

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);

 private:
  friend rdm::TransferCalls<Endpoint>;
  friend rdm::EndpointCalls<Endpoint>;
  friend rdm::AtomicCalls<Endpoint>;
  friend rdm::ScalableEndpoint<Endpoint>;
  friend rdm::EndpointContext<Endpoint>;
  friend rdm::SharedContexts<Endpoint>;
  friend rdm::SharedReceive<Endpoint>;
  Endpoint(Domain& domain, const fi_info& info, InfoPtr lower, void* context);
  ~Endpoint();

  // endpoint.cc
  Status bind_cq(CompletionQueue& queue, uint64_t flags) noexcept;
  Status bind_counter(Counter& counter, uint64_t flags) noexcept;
  Status bind_vector(AddressVector& vector) noexcept;
  int enable();
  int enable_contexts();
  void abandon(CompletionRoutes& routes) noexcept;
  Status open_lower() noexcept;
  Status read_own_name() noexcept;

  // Driven; endpoint.cc.
  void progress() noexcept override;
  fid_cq* lower_queue() noexcept override { return lower_cq_.get(); }
  fid_eq* lower_events() noexcept override { return lower_eq_.get(); }
  int on_watched() noexcept override;
  Deadline next_deadline() noexcept override;
  bool restless() noexcept override;
  std::size_t read_completions() noexcept;
  std::size_t read_completions_here() noexcept;  // the same without a call
  void read_what_is_there() noexcept;
  void read_failed_completion() noexcept;
  void returned(const Work& work) noexcept;
  void on_completion(const fi_cq_tagged_entry& entry) noexcept;
  void on_failure(const fi_cq_err_entry& error) noexcept;
  Result<Lower<fid_mr>> register_message(const void* buf, std::size_t len, uint64_t access) noexcept;

  // connections.cc
  Peer* peer_of(fi_addr_t handle) noexcept { return peers_.find(*vector_, handle); }
  fi_addr_t name_of(Peer& peer) noexcept { return names_sources_ ? peers_.name_of(*vector_, peer) : FI_ADDR_NOTAVAIL; }
  Status connect(Peer& peer) noexcept;
  Channel* open_channel(Peer& peer, fi_info* info) noexcept;
  void close_channel(Channel& channel, int error) noexcept;
  void reap() noexcept;
  void progress_connections() noexcept;
  void on_event(uint32_t event, const fi_eq_cm_entry& entry, std::size_t data_len) noexcept;
  void on_event_error() noexcept;
  void on_request(fi_info* info, const void* data, std::size_t len) noexcept;
  void reject(fi_info* info, std::uint8_t reason) noexcept;
  void accept(Peer& peer, fi_info* info, std::uint64_t remote_id, bool twin, const std::optional<DirectOffer>& offer,
              bool closes) noexcept;
  void on_connected(Channel& channel, const void* data, std::size_t len) noexcept;
  void fail_waiting(Peer& peer, int error, std::string_view sentence = {}) noexcept;
  void check_deadlines() noexcept;
  Channel* channel_of(const ::fid* fid) noexcept;
  void end_channel(Channel& channel, int error, std::string_view sentence = {}) noexcept;
  void reconnect(Peer& peer) noexcept;
  void connect_or_fail(Peer& peer) noexcept;

  // idle_connections.cc
  bool offers_to_close(const void* data, std::size_t len, std::size_t behind) const noexcept;
  std::size_t offer_to_close(std::byte* bytes, std::size_t len) const noexcept;
  void check_idle() noexcept;
  void hear_farewell(Channel& channel, std::uint64_t word) noexcept;

  // atomics.cc
  ssize_t update(const AtomicRequest& request) noexcept;
  std::size_t atomic_count(rdm::AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept;
  Buffer* make_atomic_packet(const AtomicRequest& request, std::span<const iovec> arrays) noexcept;
  bool waits_for_atomics(const Transmit& transmit) noexcept;
  ssize_t start_atomic(Channel& channel, Transmit& transmit) noexcept;
  void release_atomic(Transmit& transmit) noexcept;
  void on_atomic(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  void on_atomic_response(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;

  // transmit.cc
  ssize_t transmit(TransmitRequest&& request) noexcept;
  CompletionRoutes& routes_of(const TransmitRequest& request) noexcept {
    return request.routes != nullptr ? *request.routes : routes_;
  }
  ssize_t queue(Peer& peer, const TransmitRequest& request, std::size_t len, Buffer* atomic) noexcept;
  bool try_inject(Channel& channel, const TransmitRequest& request, std::size_t len) noexcept;
  Transmit* make_transmit(Peer& peer, const TransmitRequest& request, std::size_t len) noexcept;
  void flush(Peer& peer) noexcept;
  ssize_t start(Channel& channel, Transmit& transmit) noexcept;
  ssize_t start_eager(Channel& channel, Transmit& transmit) noexcept;
  ssize_t send_for(Transmit& transmit, Packet& packet) noexcept;
  ssize_t start_segments(Channel& channel, Transmit& transmit) noexcept;
  ssize_t start_rendezvous(Channel& channel, Transmit& transmit) noexcept;
  ssize_t start_rma(Channel& channel, Transmit& transmit) noexcept;
  void lower_finished(Transmit& transmit, int error) noexcept;
  void finish(Transmit& transmit, std::string_view sentence = {}) noexcept;
  std::uint64_t number(Transmit& transmit) noexcept;
  Transmit* numbered(std::uint64_t message) noexcept;
  Packet* make_packet(Channel& channel) noexcept;
  ssize_t send_packet(Packet& packet) noexcept;
  void post_packet(Packet& packet) noexcept;
  void release(Packet& packet) noexcept;
  void packet_finished(Packet& packet, int error) noexcept;

  // posted_buffers.cc
  void open_shared_receives() noexcept;
  bool post_buffers(Channel& channel) noexcept;
  void post_buffer(PostedBuffer& posted) noexcept;
  void post_shared(PostedBuffer& posted) noexcept;
  void post_left_over() noexcept;
  bool pushes_back() noexcept;
  bool give_number(Channel& channel) noexcept;
  // nullptr: nobody knows. A peer that does not read our answers shall not go on asking.
  Channel* sender_of(const PostedBuffer& posted, std::size_t len) noexcept {
    ControlHeader header;
    if (len < sizeof header) return nullptr;
    std::memcpy(&header, posted.buffer->bytes, sizeof header);
    const auto number = static_cast<std::uint32_t>(header.connection);
    if (last_sender_ == nullptr || last_sender_->number != number || last_sender_->holds_back()) [[unlikely]]
      return look_up_sender(number);
    return last_sender_;
  }
  Channel* look_up_sender(std::uint32_t number) noexcept;

  // receive.cc
  void resume(Channel& channel) noexcept;
  void stall(Channel& channel) noexcept;
  void on_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept;
  void handle_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept;
  void handle_other_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept;
  bool may_be_message(Channel& channel, const OpHeader& op) noexcept;
  void on_message_packet(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  void on_segment(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  void on_notice(Channel& channel, const RendezvousPacket& notice) noexcept;
  void on_rendezvous(Channel& channel, const PacketHeader& header, const std::byte* bytes, std::size_t len) noexcept;
  void on_read_done(Channel& channel, const ControlHeader& header) noexcept;
  Transmit* awaiting(std::uint64_t message) noexcept;
  void read_done(Transmit& transmit) noexcept;
  void deliver(PostedBuffer& posted, const rdm::Envelope& envelope, const std::byte* payload) noexcept;
  void keep(PostedBuffer& posted, const rdm::Envelope& envelope, const std::byte* payload) noexcept;
  rdm::Envelope envelope_of(Peer& peer, const OpHeader& op) noexcept;
  void protocol_error(Channel& channel, const char* what) noexcept;
  Assembly* begin_assembly(Channel& channel, const PacketHeader& header) noexcept;
  void finish_assembly(Assembly& assembly) noexcept;
  void fail_assembly(Assembly& assembly, int error) noexcept;
  void take(rdm::Message& message, const rdm::Delivery& delivery) noexcept override;
  void discard(rdm::Message& message) noexcept override;
  void release(Unexpected& message) noexcept;

  // rendezvous.cc
  void fetch(Channel& channel, std::uint64_t message, const Notice& notice, const rdm::Envelope& envelope,
             const rdm::Delivery& delivery) noexcept;
  Status plan_read(RemoteCopy& copy, const Notice& notice) noexcept;
  void go_on(RemoteCopy& copy) noexcept;
  ssize_t move(RemoteCopy& copy, RemoteCopy::Piece& piece) noexcept;
  void end_read(RemoteCopy& copy) noexcept;
  void end_write(RemoteCopy& copy) noexcept;
  void piece_finished(RemoteCopy::Piece& piece, int error) noexcept;
  void tell_done(Channel& channel, PacketType type, std::uint64_t message) noexcept;
  void invite(Channel& channel, std::uint64_t message, const rdm::Envelope& envelope,
              const rdm::Delivery& delivery) noexcept;
  Status open_target(WriteTarget& target, RendezvousHeader& where) noexcept;
  void on_write_target(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  void on_write_done(Channel& channel, const ControlHeader& header) noexcept;
  void release(WriteTarget& target) noexcept;
  void release(RemoteCopy& copy) noexcept;

  // direct_reads.cc
  std::size_t offer_direct_reads(Channel& channel, DirectOffer& offer) noexcept;
  bool may_read_directly(Channel& channel) noexcept;
  bool read_directly(RemoteCopy& copy) noexcept;
  bool post_read_done(Channel& channel, std::uint64_t message) noexcept;
  std::size_t drain_mailbox() noexcept;
  std::size_t read_mailbox() noexcept;

  // notices.cc
  void offer_board(Channel& channel, DirectOffer& offer) noexcept;
  void mark_lane(Channel& channel) noexcept;
  void leave_lane(Channel& channel) noexcept;
  bool put_notice(Channel& channel, const RendezvousPacket& notice) noexcept;
  bool put_done(Channel& channel, PeerBoard& board, std::uint64_t message) noexcept;
  std::size_t read_board() noexcept;
  std::size_t read_lanes() noexcept;
  std::size_t read_notices(Channel& channel) noexcept;
  void read_last_words(Channel& channel) noexcept;
  std::size_t read_done_messages(Channel& channel) noexcept;
  void wake_reader(Channel& channel, const PeerBoard& board) noexcept;

  Engine& engine() noexcept { return engine_; }
  Domain& domain_;
  const Ref<RefCounted> domain_ref_;
  Engine& engine_;  // the domain's
  const uint32_t addr_format_;
  const uint64_t caps_;
  std::size_t tx_size_;  // fixed once it is enabled
  const std::size_t eager_limit_;
  const std::size_t segment_limit_;
  const std::size_t unexpected_limit_;
  const int connect_timeout_ms_;
  const Clock::duration idle_timeout_;  // zero: idle connections stay
  const uint64_t data_mask_;            // completion data as domain_attr->cq_data_size has it
  const bool segments_;                 // see is_stream()
  const bool invites_writes_;           // FI_OFI_RXM_USE_RNDV_WRITE
  const bool direct_reads_;             // FI_OFI_RXM_DIRECT_READ
  const bool shares_receives_;          // FI_OFI_RXM_USE_SRX
  const std::size_t max_message_;       // the lower provider's: what it may have to read in one piece
  const std::size_t lower_inject_;
  const std::size_t lower_iov_limit_;
  const bool names_sources_;  // FI_SOURCE
  const bool directs_;        // FI_DIRECTED_RECV
  bool enabled_ = false;
  bool held_ = false;  // peers wait because too much is kept
  CompletionRoutes routes_;
  Ref<EventQueue> events_;
  Ref<AddressVector> vector_;
  const InfoPtr lower_info_;
  Address own_;

  std::unique_ptr<RemoteCount> remote_reads_, remote_writes_;  // of peers; null: nobody counts them
  Lower<fid_eq> lower_eq_;
  Lower<fid_cq> lower_cq_;
  Lower<fid_pep> listener_;
  Lower<fid_ep> shared_receives_;   // null: each connection has its own
  std::size_t shared_buffers_ = 0;  // for those
  std::size_t shared_posted_ = 0;   // that the lower provider has
  List<PostedBuffer> left_over_;    // that it does not have

  Buffers buffers_;
  Pool<PostedBuffer> posted_pool_;
  Pool<Transmit> transmits_;
  Pool<Packet> packets_;
  Pool<RemoteCopy> copies_;
  Pool<WriteTarget> targets_;
  rdm::PeerTable<Peer> peers_;
  std::unordered_map<const ::fid*, Channel*> channels_by_fid_;
  std::unordered_map<std::uint32_t, Channel*> channels_by_number_;  // with shared receives
  Channel* last_sender_ = nullptr;                                  // one of those
  List<Peer> connecting_;                                           // those that wait for a connection
  List<Channel> channels_;
  List<Channel> dying_;
  List<Channel, StalledTag> stalled_;
  std::size_t outstanding_ = 0;
  Mailbox mailbox_;
  std::size_t awaited_letters_ = 0;
  NoticeBoard board_;
  std::array<Channel*, NoticeBoard::kLanes> by_lane_{};
  std::uint64_t unread_lanes_ = 0;  // a bit for each
  bool board_failed_ = false;
  std::vector<std::pair<Transmit*, std::uint32_t>> numbers_;  // by the lower half of their numbers, with the upper one
  std::vector<std::uint32_t> free_numbers_;
  unsigned polls_ = 0;
  Clock::time_point looked_at_connections_{};
  Deadline idle_check_;
  rdm::ReceiveSide receives_;
  rdm::SharedContexts<Endpoint> shared_;
};

}  // namespace weft::rxm
