// SPDX-License-Identifier: BSD-2-Clause
// Rendezvous: the receiver of a long message reads it from the sender's memory, then acknowledges it; or it invites the
// sender to write, and the sender reports the end. The receiver decides (FI_OFI_RXM_USE_RNDV_WRITE).
#pragma once

#include "base/pool.h"
#include "rxm/messages/sender.h"

namespace weft::rxm {

// Owner: the endpoint. The engine's mutex guards it.
class Rendezvous {
 public:
  Rendezvous(EndpointServices& services, Packets& packets, Sender& sender, rdm::ReceiveSide& receives) noexcept;

  // Fetches a message for its receive. `place` has been checked: its ranges are as long as the message.
  void fetch(Channel& channel, std::uint64_t message, const RendezvousHeader& place, const rdm::Envelope& envelope,
             const rdm::Delivery& delivery) noexcept;
  void on_write_target(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  void on_write_done(Channel& channel, const ControlHeader& header) noexcept;

  // `error` is positive, or 0.
  void on_piece_completion(RemoteCopy::Piece& piece, int error) noexcept;
  void retry(Channel& channel) noexcept;
  void on_closed(Channel& channel, int error) noexcept;
  // The connection is closed, and the lower provider will never return its operations.
  void abandon_unreturned(Channel& channel) noexcept;

 private:
  RemoteCopy* make_copy(Channel& channel, std::uint64_t message) noexcept;
  bool read_at_once(const Channel& channel, const RendezvousHeader& place, const rdm::Envelope& envelope,
                    const rdm::Delivery& delivery) noexcept;
  Status plan_read(RemoteCopy& copy, const RendezvousHeader& place) noexcept;
  void invite(Channel& channel, std::uint64_t message, const rdm::Envelope& envelope,
              const rdm::Delivery& delivery) noexcept;
  Status open_target(LowerSide& side, WriteTarget& target, RendezvousHeader& where) noexcept;
  void advance(RemoteCopy& copy) noexcept;
  ssize_t start(RemoteCopy& copy, RemoteCopy::Piece& piece) noexcept;
  void end_read(RemoteCopy& copy) noexcept;
  void end_write(RemoteCopy& copy) noexcept;
  void release(WriteTarget& target) noexcept;
  void release(RemoteCopy& copy) noexcept;

  EndpointServices& services_;
  Packets& packets_;
  Sender& sender_;
  rdm::ReceiveSide& receives_;
  const bool invites_writes_;  // FI_OFI_RXM_USE_RNDV_WRITE
  Pool<RemoteCopy> copies_;
  Pool<WriteTarget> targets_;
};

}  // namespace weft::rxm
