// SPDX-License-Identifier: BSD-2-Clause
// A connection between two ends of reliable datagrams (FI_EP_RDM): its handshake, its stream, and the messages that
// arrive on it; fi_msg(3), fi_tagged(3).
//
// An unexpected message is stored, up to the peer's limit. Beyond the limit it stays in the socket: the application can
// find it, but later messages do not arrive until it is taken or there is room again.
#pragma once

#include <algorithm>
#include <bitset>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "base/list.h"
#include "rdm/endpoint_calls.h"
#include "rdm/linked_peer.h"
#include "rdm/receive_side.h"
#include "tcp/connection/handshake.h"
#include "tcp/grace_round.h"
#include "tcp/reliable/greeting.h"
#include "tcp/stream/stream.h"

namespace weft::tcp {

class Channel;
class ReliableEndpoint;
struct Peer;

// An unexpected message, or an announced one. Without a receive the receive side holds it; its channel also lists it
// until the payload has arrived.
struct Unclaimed : rdm::PeerMessage<Peer>, ListHook<Unclaimed> {
  enum class Where : std::uint8_t { kHere, kArriving, kInSocket, kAtSender };
  Where where = Where::kHere;
  bool dead = false;        // the connection ended before the payload arrived
  bool taken = false;       // before the payload arrived: by `taker`, or discarded if that is empty
  std::uint8_t ticket = 0;  // kAtSender: names it; 0: `number` does
  bool wants_ack = false;
  std::uint64_t number = 0;
  Channel* channel = nullptr;
  std::unique_ptr<std::byte[]> payload;
  iovec place{};  // `payload`, while it arrives
  rdm::Delivery taker;
};

// A transfer to a peer that is not connected yet. Owner: a pool of the endpoint's.
struct WaitingTransmit : ListHook<WaitingTransmit> {
  // The request, with spans into this object.
  TransmitRequest request;

  // False when memory runs out.
  bool keep(const TransmitRequest& asked, std::size_t len) noexcept {
    request = asked;
    std::copy(asked.remote.begin(), asked.remote.end(), remote_);
    request.remote = {remote_, asked.remote.size()};
    const bool atomic = asked.operation >= Operation::kUpdate;
    if (!atomic && (asked.flags & FI_INJECT) != 0 && len != 0) {
      iov_[0] = copied(asked.iov, len);
      request.iov = {iov_, 1};
      return iov_[0].iov_base != nullptr;
    }
    std::copy(asked.iov.begin(), asked.iov.end(), iov_);
    request.iov = {iov_, asked.iov.size()};
    if (asked.arrays.empty()) return true;
    arrays_ = copied(asked.arrays, total_length(asked.arrays));
    request.arrays = {&arrays_, 1};
    return arrays_.iov_base != nullptr;
  }

 private:
  iovec copied(std::span<const iovec> pieces, std::size_t len) noexcept {
    copy_.reset(new (std::nothrow) std::byte[len]);
    if (copy_ != nullptr) gather(pieces, copy_.get());
    return {copy_.get(), len};
  }

  iovec iov_[kIovLimit];
  iovec arrays_{};
  fi_rma_iov remote_[kMaxRmaIov];
  std::unique_ptr<std::byte[]> copy_;
};

// A remote endpoint, identified by its address. Owner: the local endpoint, as long as it is in use.
struct Peer : rdm::LinkedPeer<Channel> {
  explicit Peer() noexcept;

  void on_timer() noexcept;

  Timer<Peer, &Peer::on_timer> timer{*this};  // expires when a rejected or refused request is to be repeated
  ReliableEndpoint* endpoint = nullptr;
  List<WaitingTransmit> waiting;
  std::size_t waiting_count = 0;

  bool in_use() const noexcept {
    return LinkedPeer::in_use() || !waiting.empty() || timer.ListHook<DeadlineTag>::linked();
  }
};

// Owner: the endpoint. The engine's mutex guards it.
class Channel final : public MessageSink, public ListHook<Channel> {
 public:
  Channel(ReliableEndpoint& endpoint, Peer& peer) noexcept;
  ~Channel();

  Peer& peer() noexcept { return peer_; }
  bool open() const noexcept { return stream_.open(); }
  // Transfers may be sent: the stream is open, and no idle close is being negotiated.
  bool can_send() const noexcept { return stream_.open() && !idle_close_.holds(); }
  const rdm::IdleClose& idle_close() const noexcept { return idle_close_; }
  // To be called periodically: proposes to the peer to close the connection if it is idle.
  void check_idle(Clock::time_point now) noexcept {
    if (open() && idle_close_.should_request(activity(), quiet(), now)) send(rdm::IdleCloseMessage::kRequest);
  }
  Stream& stream() noexcept { return stream_; }

  // Starts the handshake; the endpoint's on_open(), on_unreachable() or on_refused() reports the outcome.
  Status connect(const Address& own, UniqueFd socket) noexcept;
  // A sentence about a failed handshake; callable until the channel is open.
  std::string failure(int error, const char* why) const noexcept;
  // Since the own request began.
  Clock::duration time_of_request() const noexcept { return net::now() - handshake_->started_at; }
  void start(UniqueFd socket, bool swap_bytes, const Agreement& agreement, Watch* handshake) noexcept;
  // The agreement with a peer that has the features `theirs`.
  Agreement agree_on(std::uint8_t version, std::uint8_t theirs, bool swapped) const noexcept;
  // Enables the extensions that the peer announced in `theirs`.
  void agree(const CmMessage& theirs, bool active) noexcept;
  // There is room for unexpected messages again.
  void on_room() noexcept;
  // Local end: everything outstanding fails with `reason`.
  void close(int reason) noexcept {
    handshake_.reset();
    stream_.stop(0, reason);
  }

  // Messages that were to arrive in receives of the context are discarded.
  void discard_for(const rdm::ReceiveSide& context) noexcept;

  // The receive side took a message whose payload has not arrived; with an empty delivery, it discarded the message.
  void take(Unclaimed& message, const rdm::Delivery& delivery) noexcept;

 private:
  // MessageSink, for the stream.
  bool take_whole(bool tagged, std::uint64_t tag, std::span<const std::byte> payload) noexcept override;
  std::optional<Destination> begin(const DataHeader& header) noexcept override;
  void finish(const DataHeader& header) noexcept override;
  bool on_control(const DataHeader& header) noexcept override;
  void abandon(int error, int native) noexcept override;
  void on_stream_end(int error) noexcept override;
  int interrupted_error() const noexcept override { return FI_ECONNRESET; }
  fi_addr_t source() noexcept override;
  LocalHost& local_host() noexcept override;

  struct OwnHandshake : Handshake {
    OwnHandshake(Channel& owner, UniqueFd socket) noexcept;
    Channel& channel;
  };

  std::uint8_t features() const noexcept;
  void proceed() noexcept;
  void on_answer() noexcept;
  rdm::Envelope envelope_of(const DataHeader& header, std::size_t len) noexcept;
  bool check_context(const DataHeader& header) noexcept;
  std::optional<Destination> begin_unclaimed(const DataHeader& header) noexcept;
  std::optional<Destination> begin_announced(const DataHeader& header) noexcept;
  std::optional<Destination> continue_blocked(const DataHeader& header) noexcept;
  Unclaimed* make(Unclaimed::Where where, const DataHeader& header, const rdm::Envelope& envelope) noexcept;
  void keep(Unclaimed& message) noexcept;
  void report_scarcity(bool scarce) noexcept;
  bool store(Unclaimed& message) noexcept;
  Destination receive(const rdm::Delivery& delivery, const rdm::Envelope& envelope, bool acknowledge) noexcept;
  bool on_announcement(const DataHeader& header) noexcept;
  void send(rdm::IdleCloseMessage message) noexcept;
  void on_idle_close(rdm::IdleCloseMessage received) noexcept;
  void clear(Unclaimed& message, const rdm::Delivery& delivery) noexcept;
  std::uint64_t activity() const noexcept { return std::uint64_t{stream_.sent_count()} << 32 | arrived_count_; }
  bool quiet() noexcept;

  ReliableEndpoint& endpoint_;
  Peer& peer_;
  std::unique_ptr<OwnHandshake> handshake_;
  Stream stream_;

  rdm::IdleClose idle_close_;
  std::uint32_t arrived_count_ = 0;  // messages

  // The arriving message: for a receive, or unexpected.
  rdm::Delivery delivery_;
  rdm::Envelope envelope_;
  Unclaimed* arriving_ = nullptr;
  Unclaimed* blocked_ = nullptr;     // where the stream stopped
  List<Unclaimed> messages_;         // their payload has not arrived
  std::bitset<kTickets> announced_;  // tickets of announced messages that have not arrived
  List<Unclaimed> cleared_;          // the peer may send them; without a receive they are discarded
  bool has_numbers_ = false;         // the handshake agreed on them
  bool scarce_ = false;              // this end has reported that memory for the peer's messages is scarce
  GraceRound grace_;
};

}  // namespace weft::tcp
