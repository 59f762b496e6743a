// SPDX-License-Identifier: BSD-2-Clause
// Sending: a short message is injected, a longer one is sent as eager packets or announced as a rendezvous; reads and
// writes go to the lower provider (sender.cc). Atomic operations are packets with a response (atomic_requests.cc).
#pragma once

#include <cstdint>

#include "base/pool.h"
#include "messages/message_numbers.h"
#include "rxm/messages/packets.h"

namespace weft::rxm {

// Owner: the endpoint. The engine's mutex guards it; transmit() and update() take it.
class Sender {
 public:
  Sender(EndpointServices& services, Packets& packets) noexcept;

  ssize_t transmit(TransmitRequest&& request) noexcept;
  ssize_t update(const AtomicRequest& request) noexcept;
  std::size_t outstanding() const noexcept { return outstanding_; }

  // Starts the operations that wait for the peer, in order, until the lower provider has no room.
  void flush(Peer& peer) noexcept;
  // `sentence`: the error text of operations that had not started.
  void fail_waiting(Peer& peer, int error, std::string_view sentence) noexcept;
  void cancel_waiting(Peer& peer, const CompletionRoutes& routes) noexcept;
  bool carries(Channel& channel, const CompletionRoutes& routes) noexcept;
  void on_closed(Channel& channel, int error) noexcept;
  // The connection is closed, but the lower provider has not returned its operations: those of `routes` fail now, and
  // their later end is reported nowhere.
  void cancel_unreturned(Channel& channel, CompletionRoutes& routes) noexcept;
  // Likewise, and the lower provider will never return them.
  void abandon_unreturned(Channel& channel) noexcept;

  // `error` is positive, or 0.
  void on_lower_completion(Transmit& transmit, int error) noexcept;
  void on_packet_completion(Packet& packet, int error) noexcept;
  // The message with that number that its receiver has not acknowledged; or nullptr.
  Transmit* find_unacknowledged(const Channel& channel, std::uint64_t message) noexcept;
  // Sends kWriteDone from the record of a message whose last write has ended, so that the message completes when the
  // packet has left. False: not possible now, send a packet of its own.
  bool announce_written(Channel& channel, Transmit& transmit, std::uint64_t message) noexcept;
  void on_acknowledged(Transmit& transmit) noexcept;
  void on_atomic_response(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;

 private:
  ssize_t check_long(const TransmitRequest& request, std::size_t len) noexcept;
  ssize_t queue(Peer& peer, const TransmitRequest& request, std::size_t len, Buffer* atomic) noexcept;
  bool try_inject(Channel& channel, const TransmitRequest& request, std::size_t len) noexcept;
  ssize_t inject_at_once(Channel& channel, const TransmitRequest& request, std::size_t len) noexcept;
  void count_injected(Channel& channel, const TransmitRequest& request) noexcept;
  Transmit* make_transmit(Peer& peer, const TransmitRequest& request, std::size_t len) noexcept;
  ssize_t start(Channel& channel, Transmit& transmit) noexcept;
  ssize_t start_eager(Channel& channel, Transmit& transmit) noexcept;
  ssize_t start_segments(Channel& channel, Transmit& transmit) noexcept;
  bool is_announced(Channel& channel, Transmit& transmit) noexcept;
  ssize_t start_announced(Channel& channel, Transmit& transmit) noexcept;
  ssize_t start_rendezvous(Channel& channel, Transmit& transmit) noexcept;
  ssize_t describe_rendezvous(Channel& channel, Transmit& transmit) noexcept;
  ssize_t start_rma(Channel& channel, Transmit& transmit) noexcept;
  ssize_t send_part(Channel& channel, Transmit& transmit, const PacketHeader& header, std::size_t offset,
                    std::size_t len) noexcept;
  ssize_t send_for(Transmit& transmit, Packet& packet) noexcept;
  void count_started(Channel& channel, Transmit& transmit) noexcept;
  bool describe(const Channel& channel, Transmit& transmit, PacketType type, PacketHeader& header) noexcept;
  static std::uint64_t levels_below(const Transmit& transmit) noexcept {
    return transmit.awaits_peer ? 0 : transmit.request.flags & transmit.channel->side->levels;
  }
  void report(const Transmit& transmit, std::string_view sentence = {}) noexcept;
  void finish_if_done(Transmit& transmit) noexcept;
  void finish(Transmit& transmit, std::string_view sentence = {}) noexcept;
  Buffer* make_atomic_packet(const AtomicRequest& request, std::span<const iovec> arrays) noexcept;
  ssize_t start_atomic(Channel& channel, Transmit& transmit) noexcept;
  void release_atomic(Transmit& transmit) noexcept;

  EndpointServices& services_;
  Packets& packets_;
  const std::size_t segment_limit_;
  const std::size_t max_message_;    // the lower provider's, which may read a whole message at once
  const std::size_t short_message_;  // bytes of a message that may be injected, if the connection permits
  std::size_t outstanding_ = 0;
  messages::MessageNumbers<Transmit> numbers_;
  Pool<Transmit> transmits_;
};

}  // namespace weft::rxm
