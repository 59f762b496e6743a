// SPDX-License-Identifier: BSD-2-Clause
// Long messages between processes of one host: their senders put up a notice in shared memory where they can, and their
// receivers acknowledge them there; notice_board.h has the rules. Whatever does not go there goes over the connection.
//
// Messages stay in order: a notice is put up when the peer has taken all packets before it, and taken down before any
// packet that comes later.
#include <rdma/providers/fi_log.h>

#include <bit>
#include <utility>

#include "rxm/domain.h"
#include "rxm/endpoint.h"
#include "rxm/provider.h"

namespace weft::rxm {

// A lane for the peer. Who sleeps is woken by letters, so there is none without a mailbox.
void Endpoint::offer_board(Channel& channel, DirectOffer& offer) noexcept {
  if (mailbox_.fd() < 0) return;
  if (!board_.opened() && !board_failed_) {
    const Status status = board_.open();
    board_failed_ = !status.ok();
    if (board_failed_)
      FI_INFO(&provider(), FI_LOG_EP_CTRL, "no memory to share with peers: %s\n", fi_strerror(status.error()));
  }
  if (!board_.opened() || board_.descriptor() > UINT16_MAX) return;
  channel.lane = board_.take_lane();
  if (channel.lane == kNoLane) return;
  by_lane_[channel.lane] = &channel;
  offer.board = static_cast<std::uint16_t>(board_.descriptor());
  offer.lane = channel.lane;
}

void Endpoint::mark_lane(Channel& channel) noexcept {
  if (channel.lane != kNoLane) board_.mark(channel.lane, channel.direct.kept());
}

void Endpoint::leave_lane(Channel& channel) noexcept {
  if (channel.lane == kNoLane) return;
  by_lane_[channel.lane] = nullptr;
  unread_lanes_ &= ~(std::uint64_t{1} << channel.lane);
  board_.give_back(std::exchange(channel.lane, kNoLane));
}

void Endpoint::wake_reader(Channel& channel, const PeerBoard& board) noexcept {
  if (!board.owner_sleeps()) return;
  // A mailbox without room has something in it that wakes its owner.
  (void)mailbox_.post(channel.direct.mailbox(), {.proof = channel.direct.expected()});
}

// The sender.

// False: it goes over the connection.
bool Endpoint::put_notice(Channel& channel, const RendezvousPacket& notice) noexcept {
  if (!may_read_directly(channel)) return false;
  PeerBoard* const board = channel.direct.board();
  // What accesses memory may be on its way without being counted, until a packet behind it has arrived.
  if (board == nullptr || channel.accesses || board->received() != channel.sent) return false;
  if (!board->put_notice(channel.notices_put, channel.direct.expected(), notice)) return false;
  ++channel.notices_put;
  wake_reader(channel, *board);
  return true;
}

// The receiver.

bool Endpoint::put_done(Channel& channel, PeerBoard& board, std::uint64_t message) noexcept {
  board.use();
  if (!board.put_done(message)) return false;
  wake_reader(channel, board);
  return true;
}

// The letters that came with news shall wake nobody again. They are sent behind what they tell of, so what is read
// after them is all.
std::size_t Endpoint::read_board() noexcept {
  if (board_.sleepers()) drain_mailbox();
  return read_lanes();
}

// Each peer has its turn, however fast one writes. Who keeps too much already, or does not read our answers, waits with
// its notices.
std::size_t Endpoint::read_lanes() noexcept {
  if (board_.has_news()) unread_lanes_ |= board_.take_news();
  std::size_t found = 0;
  for (std::uint64_t left = unread_lanes_; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(left));
    Channel* const channel = by_lane_[lane];
    bool more = false;
    if (channel != nullptr) {
      const std::size_t done = read_done_messages(*channel);
      const bool waits = channel->lane != kNoLane && (pushes_back() || channel->holds_back());
      const std::size_t notices = waits ? 0 : read_notices(*channel);
      more = channel->lane != kNoLane && (waits || done == NoticeBoard::kDone || notices == NoticeBoard::kNotices);
      found += done + notices;
    }
    if (!more) unread_lanes_ &= ~(std::uint64_t{1} << lane);
  }
  return found;
}

std::size_t Endpoint::read_done_messages(Channel& channel) noexcept {
  std::size_t found = 0;
  for (; found < NoticeBoard::kDone && channel.lane != kNoLane; ++found) {
    const std::uint64_t message = board_.take_done(channel.lane);
    if (message == 0) break;
    Transmit* const transmit = awaiting(message);
    if (transmit != nullptr && transmit->channel == &channel) read_done(*transmit);
  }
  return found;
}

// The peer closed the connection: what it sent or put up before that still counts.
void Endpoint::read_last_words(Channel& channel) noexcept {
  read_what_is_there();
  read_mailbox();
  read_done_messages(channel);
  read_notices(channel);
}

// All that are there; what follows them over the connection is not here yet.
std::size_t Endpoint::read_notices(Channel& channel) noexcept {
  RendezvousPacket notice;
  std::size_t found = 0;
  for (; found < NoticeBoard::kNotices && channel.lane != kNoLane; ++found) {
    if (!board_.take_notice(channel.lane, channel.notices_taken, notice)) break;
    ++channel.notices_taken;
    ++channel.activity;
    on_notice(channel, notice);
  }
  return found;
}

}  // namespace weft::rxm
