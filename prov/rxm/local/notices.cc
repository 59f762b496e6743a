// SPDX-License-Identifier: BSD-2-Clause
// Long messages between processes of one host: the sender posts a notice in shared memory, and the receiver
// acknowledges it there, by the rules of notice_board.h. If that is impossible, both use the connection.
//
// Messages stay in order: a notice is posted when the peer has received all packets before it, and read before any
// later packet is handled.
#include <rdma/providers/fi_log.h>

#include <bit>
#include <utility>

#include "rxm/local/local_host.h"
#include "rxm/logging.h"

namespace weft::rxm {

// Reserves a slot for the peer. Sleepers are woken through the mailbox, so no mailbox means no slot.
void LocalHost::offer_board(Channel& channel, DirectOffer& offer) noexcept {
  if (mailbox_.fd() < 0) return;
  if (!board_.opened() && !board_failed_) {
    const Status status = board_.open();
    board_failed_ = !status.ok();
    if (board_failed_)
      FI_INFO(&provider(), FI_LOG_EP_CTRL, "no shared memory for notices: %s\n", fi_strerror(status.error()));
  }
  if (!board_.opened() || board_.descriptor() > UINT16_MAX) return;
  channel.slot = board_.take_slot();
  if (channel.slot == kNoSlot) return;
  by_slot_[channel.slot] = &channel;
  offer.board = static_cast<std::uint16_t>(board_.descriptor());
  offer.slot = channel.slot;
}

void LocalHost::on_closed(Channel& channel) noexcept {
  channel.direct.end();
  if (channel.slot == kNoSlot) return;
  by_slot_[channel.slot] = nullptr;
  unread_slots_ &= ~(std::uint64_t{1} << channel.slot);
  board_.give_back(std::exchange(channel.slot, kNoSlot));
}

void LocalHost::wake_reader(Channel& channel, const PeerBoard& board) noexcept {
  if (!board.owner_sleeps()) return;
  // A full mailbox wakes its owner anyway.
  (void)mailbox_.post(channel.direct.mailbox(), {.proof = channel.direct.expected()});
}

// The sender.

bool LocalHost::announce(Channel& channel, Transmit& transmit) noexcept {
  const bool by_wakeup = channel.slot == kNoSlot || !board_.is_used(channel.slot) ||
                         channel.direct.state() == DirectLink::State::kUnproven;  // its consent comes the same way
  if (by_wakeup && !std::exchange(transmit.awaits_wakeup, true)) ++awaited_wakeups_;
  return put_notice(channel, transmit.packet);
}

bool LocalHost::put_notice(Channel& channel, const RendezvousPacket& notice) noexcept {
  if (!may_read_directly(channel)) return false;
  PeerBoard* const board = channel.direct.board();
  // An access to memory is not counted as a packet; it is known to have ended when a later packet has arrived.
  if (board == nullptr || channel.accesses || board->received() != channel.sent) return false;
  if (!board->put_notice(channel.notices_put, channel.direct.expected(), notice)) return false;
  ++channel.notices_put;
  wake_reader(channel, *board);
  return true;
}

// The receiver.

bool LocalHost::put_done(Channel& channel, PeerBoard& board, std::uint64_t message) noexcept {
  board.use();
  if (!board.put_done(message)) return false;
  wake_reader(channel, board);
  return true;
}

// Consumes the wakeups of the news first. A wakeup is sent after its entry, so the slots read next contain all entries.
void LocalHost::read_board() noexcept {
  if (board_.sleepers()) drain_mailbox();
  read_slots();
}

// Peers take turns, however fast one writes. Notices wait while unexpected messages reach their limit, and while the
// peer does not read our responses.
void LocalHost::read_slots() noexcept {
  if (board_.has_news()) unread_slots_ |= board_.take_news();
  for (std::uint64_t left = unread_slots_; left != 0; left &= left - 1) {
    const auto slot = static_cast<std::size_t>(std::countr_zero(left));
    Channel* const channel = by_slot_[slot];
    bool more = false;
    if (channel != nullptr) {
      const std::size_t done = read_done_messages(*channel);
      const bool waits = channel->slot != kNoSlot && (posted_.pushes_back(*channel->peer) || channel->is_throttled());
      const std::size_t notices = waits ? 0 : read_notices(*channel);
      more = channel->slot != kNoSlot && (waits || done == NoticeBoard::kDone || notices == NoticeBoard::kNotices);
    }
    if (!more) unread_slots_ &= ~(std::uint64_t{1} << slot);
  }
}

bool LocalHost::has_unread() noexcept {
  for (std::uint64_t left = unread_slots_; left != 0; left &= left - 1)
    if (Channel* channel = by_slot_[static_cast<std::size_t>(std::countr_zero(left))];
        channel == nullptr || !posted_.pushes_back(*channel->peer))
      return true;
  return false;
}

std::size_t LocalHost::read_done_messages(Channel& channel) noexcept {
  std::size_t found = 0;
  for (; found < NoticeBoard::kDone && channel.slot != kNoSlot; ++found) {
    const std::uint64_t message = board_.take_done(channel.slot);
    if (message == 0) break;
    Transmit* const transmit = client_.find_rendezvous(message);
    if (transmit != nullptr && transmit->channel == &channel) client_.on_acknowledged(*transmit);
  }
  return found;
}

void LocalHost::read_final_messages(Channel& channel) noexcept {
  read_mailbox();
  read_done_messages(channel);
  read_notices(channel);
}

// Reads all notices; packets that follow them have not been handled yet.
std::size_t LocalHost::read_notices(Channel& channel) noexcept {
  RendezvousPacket notice;
  std::size_t found = 0;
  for (; found < NoticeBoard::kNotices && channel.slot != kNoSlot; ++found) {
    if (!board_.take_notice(channel.slot, channel.notices_taken, notice)) break;
    ++channel.notices_taken;
    ++channel.activity;
    client_.on_notice(channel, notice);
  }
  return found;
}

}  // namespace weft::rxm
