// SPDX-License-Identifier: BSD-2-Clause
// An endpoint's ways to peers on the same host: direct reads of long messages, notices and acknowledgements in shared
// memory, wakeups. After any failure the connection is used instead.
#pragma once

#include <array>

#include "rxm/local/mailbox.h"
#include "rxm/local/notice_board.h"
#include "rxm/messages/posted_buffers.h"

namespace weft::rxm {

// The recipient of what arrives without the connection.
class LocalClient {
 public:
  virtual void on_notice(Channel& channel, const RendezvousPacket& notice) noexcept = 0;
  // The rendezvous with that number that its receiver has not acknowledged; or nullptr.
  virtual Transmit* find_rendezvous(std::uint64_t message) noexcept = 0;
  virtual void on_acknowledged(Transmit& transmit) noexcept = 0;

 protected:
  ~LocalClient() = default;
};

// Owner: the endpoint. The engine's mutex guards it.
class LocalHost {
 public:
  LocalHost(EndpointServices& services, PostedBuffers& posted, LocalClient& client) noexcept
      : services_(services), posted_(posted), client_(client) {}

  // Opens the mailbox if direct reads are possible over `lower`.
  void open(const fi_info& lower) noexcept;
  // Returns the size of the offer; 0: none.
  std::size_t offer(Channel& channel, DirectOffer& offer) noexcept;
  void accept(Channel& channel, const DirectOffer& offer) noexcept;
  void on_closed(Channel& channel) noexcept;

  // Announces a rendezvous between ends that both made offers. False: the connection must be used.
  bool announce(Channel& channel, Transmit& transmit) noexcept;
  void on_finished(const Transmit& transmit) noexcept {
    if (transmit.awaits_wakeup) --awaited_wakeups_;
  }
  // Copies the next slice; after the last one all pieces count as issued. False: the connection must be used.
  bool read_directly(RemoteCopy& copy) noexcept;
  // Acknowledges a message that was read directly. False: the connection must be used.
  bool post_read_done(Channel& channel, std::uint64_t message) noexcept;

  // Before and after a packet of the connection is handled.
  void before_packet(Channel& channel) noexcept {
    if (channel.slot != kNoSlot) read_notices(channel);  // these were posted before the packet was sent
  }
  void after_packet(Channel& channel) noexcept {
    if (channel.slot != kNoSlot) board_.publish_received(channel.slot, ++channel.counts.received);
  }

  void progress() noexcept {
    if (awaited_wakeups_ != 0) read_mailbox();
    if (unread_slots_ != 0 || board_.has_news()) read_board();
  }
  // A wakeup that was not awaited must not keep sleepers awake.
  void read_stray_wakeups() noexcept {
    if (board_.sleepers()) read_mailbox();
  }
  // The peer closed the connection: reads the notices and acknowledgements that it sent before.
  void read_final_messages(Channel& channel) noexcept;

  bool has_news() const noexcept { return board_.has_news(); }
  // Notices are left that may be read now.
  bool has_unread() noexcept;
  // From now on threads may sleep. Returns a descriptor to sleep on; -1: none.
  int expect_sleepers() noexcept {
    board_.expect_sleepers();
    return mailbox_.fd();
  }

 private:
  bool may_read_directly(Channel& channel) noexcept;
  void read_mailbox() noexcept;
  bool drain_mailbox() noexcept;
  void offer_board(Channel& channel, DirectOffer& offer) noexcept;
  void read_board() noexcept;
  void read_slots() noexcept;
  std::size_t read_notices(Channel& channel) noexcept;
  std::size_t read_done_messages(Channel& channel) noexcept;
  void wake_reader(Channel& channel, const PeerBoard& board) noexcept;

  EndpointServices& services_;
  PostedBuffers& posted_;
  LocalClient& client_;
  bool direct_reads_ = false;  // FI_OFI_RXM_DIRECT_READ
  bool board_failed_ = false;
  Mailbox mailbox_;
  std::size_t awaited_wakeups_ = 0;
  NoticeBoard board_;
  std::array<Channel*, NoticeBoard::kSlots> by_slot_{};
  std::uint64_t unread_slots_ = 0;  // a bit for each
};

}  // namespace weft::rxm
