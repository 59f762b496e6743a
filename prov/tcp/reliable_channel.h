// SPDX-License-Identifier: BSD-2-Clause
// A connection between two ends of reliable datagrams (FI_EP_RDM): the way to it, the stream that it then is, and what
// becomes of the messages that arrive on it; fi_msg(3), fi_tagged(3).
//
// A message without a receive is kept, up to the endpoint's limit. Beyond it, it stays in the socket: the application
// can find it, but nothing behind it arrives until it is taken or there is room again.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/list.h"
#include "rdm/atomic_target.h"
#include "rdm/farewell.h"
#include "rdm/peer_table.h"
#include "rdm/receive_side.h"
#include "tcp/handshake.h"
#include "tcp/reliable_greeting.h"
#include "tcp/stream.h"
#include "tcp/waiting_transmit.h"

namespace weft::tcp {

class Channel;
class ReliableEndpoint;
struct CrowdedTag;

// A message without a receive. It is the receive side's, and in a list of its channel while it needs that.
struct Unclaimed : rdm::Message, ListHook<Unclaimed> {
  enum class Where : std::uint8_t { kHere, kArriving, kInSocket, kAtSender };
  Where where = Where::kHere;
  bool dead = false;   // its connection is gone, and (the rest of) it with that
  bool taken = false;  // while it was not here: by `taker`, or by nobody (FI_DISCARD)
  std::uint8_t ticket = 0;
  bool wants_ack = false;
  Channel* channel = nullptr;
  std::unique_ptr<std::byte[]> payload;
  rdm::Delivery taker;
};

// A peer's atomic operation while its arrays come in: it is carried out as a whole.
struct ArrivingAtomic {
  rdm::AtomicDemand demand;
  alignas(16) std::byte arrays[kMaxAtomicBytes];
};

// Somebody with an address. Owner: the endpoint, until it closes.
struct Peer : rdm::PeerBase {
  explicit Peer() noexcept;

  // Runs when a lost request is to be repeated.
  struct Timer : Watch {
    explicit Timer(Peer& owner) noexcept;
    Peer& peer;
  } timer;
  ReliableEndpoint* endpoint = nullptr;
  std::uint32_t process = 0;    // 0: not known
  Channel* channel = nullptr;   // what we send on
  Channel* twin = nullptr;      // the address is our own: where that arrives
  Clock::time_point give_up{};  // what waits fails then
  List<WaitingTransmit> waiting;
  std::size_t waiting_count = 0;
};

// Owner: the endpoint. The engine's mutex guards it.
class Channel final : public ListHook<Channel>, public ListHook<CrowdedTag> {
 public:
  Channel(ReliableEndpoint& endpoint, Peer& peer) noexcept;
  ~Channel();

  Peer& peer() noexcept { return peer_; }
  bool open() const noexcept { return stream_.open(); }
  // What the application sends may go: the stream is open, and nobody is about to close it because it is idle.
  bool takes() const noexcept { return stream_.open() && !farewell_.holds(); }
  bool agreed_to_close() const noexcept { return farewell_.agreed(); }
  // To be called now and then: asks the peer to close the connection if it is idle.
  void check_idle(Clock::time_point now) noexcept;
  Stream& stream() noexcept { return stream_; }
  // What completions call the peer.
  fi_addr_t name() noexcept;

  // Asks the peer; the endpoint hears of the end.
  Status ask(const Address& own, UniqueFd socket, int timeout_ms) noexcept;
  // Why it does not get there, in a sentence; until it is open.
  std::string failure(int error, const char* why) const noexcept;
  void start(UniqueFd socket, bool swap_bytes, const Agreement& agreement, Watch* handshake) noexcept;
  // Local end: everything outstanding fails with `reason`.
  void close(int reason) noexcept;

  // The stream's side; see stream.h. `take_whole`: false if the message has to go the long way.
  bool take_whole(bool tagged, std::uint64_t tag, std::span<const std::byte> payload) noexcept;
  bool begin_message(const DataHeader& header) noexcept;
  void begin_announced(const DataHeader& header) noexcept;
  void finish_message() noexcept;
  void on_farewell(rdm::FarewellWord word) noexcept;
  // The rest will not come. `arriving`: of the message that was being received.
  void abandon(bool arriving, int error) noexcept;
  void on_stream_end(int error) noexcept;
  bool has_atomics() const noexcept { return has_atomics_; }
  ArrivingAtomic* arriving_atomic() noexcept;  // null: no memory
  bool may_announce() const noexcept { return announces_ && tickets_left_ != 0; }
  std::uint8_t take_ticket() noexcept;
  void give_back_ticket(std::uint8_t ticket) noexcept;

  // The receive side's; see rdm::Protocol.
  void take(Unclaimed& message, const rdm::Delivery& delivery) noexcept;
  void discard(Unclaimed& message) noexcept;

 private:
  // A message that the peer was told to send.
  struct Cleared {
    std::uint8_t ticket;
    bool wants_ack;
    rdm::Delivery delivery;  // none: nobody wants it
    rdm::Envelope envelope;
  };
  struct Asking : Handshake {
    Asking(Channel& owner, UniqueFd socket, int timeout_ms) noexcept;
    Channel& channel;
    bool connected = false;
    bool sent = false;
  };

  void proceed() noexcept;
  void settle(Handshake::Step step) noexcept;
  void on_answer() noexcept;
  rdm::Envelope envelope_of(const DataHeader& header, std::size_t len) noexcept;
  bool names_context(const DataHeader& header) noexcept;
  bool begin_unclaimed(const DataHeader& header) noexcept;
  bool store(Unclaimed& message) noexcept;
  bool go_on_with_blocked(const DataHeader& header) noexcept;
  void receive(const rdm::Delivery& delivery, const rdm::Envelope& envelope, const DataHeader& header) noexcept;
  void clear(std::uint8_t ticket, bool wants_ack, const rdm::Delivery& delivery,
             const rdm::Envelope& envelope) noexcept;
  void out_of_memory() noexcept;
  std::uint64_t activity() const noexcept { return std::uint64_t{stream_.sent_count()} << 32 | arrived_count_; }
  bool quiet() noexcept;

  ReliableEndpoint& endpoint_;
  Peer& peer_;
  std::unique_ptr<Asking> asking_;
  Stream stream_;

  rdm::Farewell farewell_;
  std::uint32_t arrived_count_ = 0;  // messages
  bool announces_ = false;
  bool has_atomics_ = false;
  std::uint8_t last_ticket_ = 0;
  std::uint16_t tickets_left_ = kTickets - 1;
  std::unique_ptr<bool[]> tickets_;  // those in use

  // What is arriving: of a receive, or a kept message.
  rdm::Delivery delivery_;
  rdm::Envelope envelope_;
  Unclaimed* arriving_ = nullptr;
  Unclaimed* blocked_ = nullptr;  // what the stream stopped at
  List<Unclaimed> messages_;      // those that are not here yet
  std::vector<Cleared> cleared_;
  std::unique_ptr<ArrivingAtomic> arriving_atomic_;  // from the first one on
};

}  // namespace weft::tcp
