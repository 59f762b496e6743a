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
    if (board_.sleepers()) board_.expect_sleepers();
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

void Endpoint::wake_reader(Channel& channel) noexcept {
  if (!channel.direct.board()->owner_sleeps()) return;
  // A mailbox without room has something in it that wakes its owner.
  (void)mailbox_.post(channel.direct.mailbox(), {.proof = channel.direct.expected()});
}

// The sender.

// False: it goes over the connection.
bool Endpoint::put_notice(Channel& channel, const RendezvousPacket& notice) noexcept {
  if (!may_read_directly(channel)) return false;
  PeerBoard* const board = channel.direct.board();
  // What accesses memory may be on its way without being counted; the packet that this becomes is behind it.
  if (board == nullptr || std::exchange(channel.accesses, false) || board->received() != channel.sent) return false;
  if (!board->put_notice(channel.notices_put, channel.direct.expected(), notice)) return false;
  ++channel.notices_put;
  wake_reader(channel);
  return true;
}

// The receiver.

bool Endpoint::put_done(Channel& channel, std::uint64_t message) noexcept {
  PeerBoard& board = *channel.direct.board();
  board.use();
  if (!board.put_done(message)) return false;
  wake_reader(channel);
  return true;
}

// Who keeps too much already, or does not read our answers, waits with its notices.
std::size_t Endpoint::read_board() noexcept {
  const std::uint64_t news = board_.has_news() ? board_.take_news() : 0;
  std::size_t found = 0;
  unread_lanes_ |= news;
  for (std::uint64_t left = unread_lanes_; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    Channel* const channel = by_lane_[static_cast<std::size_t>(lane)];
    if (channel == nullptr) {
      unread_lanes_ &= ~(std::uint64_t{1} << lane);
      continue;
    }
    while (const std::uint64_t message = board_.take_done(channel->lane)) {
      Transmit* const transmit = awaiting(message);
      if (transmit != nullptr && transmit->channel == channel) read_done(*transmit), ++found;
      if (channel->lane == kNoLane) break;
    }
    if (channel->lane == kNoLane || pushes_back() || channel->holds_back()) continue;
    unread_lanes_ &= ~(std::uint64_t{1} << lane);
    const std::uint64_t before = channel->notices_taken;
    read_notices(*channel);
    found += static_cast<std::size_t>(channel->notices_taken - before);
  }
  if (news != 0 && board_.sleepers()) read_mailbox();  // the letters that came with it wake nobody again
  return found;
}

void Endpoint::read_notices(Channel& channel) noexcept {
  RendezvousPacket notice;
  while (channel.lane != kNoLane && board_.take_notice(channel.lane, channel.notices_taken, notice)) {
    ++channel.notices_taken;
    ++channel.activity;
    on_notice(channel, notice);
  }
}

}  // namespace weft::rxm
