// SPDX-License-Identifier: BSD-2-Clause
// Long messages between two processes of one host: the receiver copies them from the sender's memory by the rules of
// direct_link.h. The sender posts a notice in shared memory, and the receiver acknowledges it there, by the rules of
// notice_board.h. After any failure both use the connection instead.
//
// Messages stay in order: a notice is posted when the peer has received all packets before it, and read before any
// later packet is handled.
#include "rxm/local/local_host.h"

#include <rdma/fi_cm.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/socket.h"
#include "rxm/logging.h"

namespace weft::rxm {
namespace {

// Bytes of one system call, so that other peers and the application take turns.
constexpr std::size_t kSlice = std::size_t{1} << 20;

constexpr std::size_t kWakeups = 64;  // taken per round of progress

// Packets to an address of this host come from that address.
bool is_of_this_host(const Address& peer) noexcept {
  sockaddr_storage local{};
  socklen_t len = sizeof local;
  if (net::route(peer.data(), peer.size(), reinterpret_cast<sockaddr*>(&local), &len) < 0) return false;
  const auto from = Address::from(&local, len);
  return from && from->same_host(peer);
}

using NameCall = int (*)(fid_ep*, void*, std::size_t*);
Address name_by(NameCall call, fid_ep* ep) noexcept {
  sockaddr_storage name{};
  std::size_t len = sizeof name;
  if (call(ep, &name, &len) != 0) return {};
  return Address::from(&name, len).value_or(Address());
}

}  // namespace

void LocalHost::open(const fi_info& lower) noexcept {
  direct_reads_ = services_.domain.fabric().parameters.direct_read && is_stream(lower) && mailbox_.open().ok();
}

std::size_t LocalHost::offer(Channel& channel, DirectOffer& offer) noexcept {
  if (!direct_reads_ || !is_of_this_host(channel.peer->address)) return 0;
  const auto made = channel.direct.offer();
  if (!made) return 0;
  offer = *made;
  offer.mailbox = mailbox_.name();
  offer_board(channel, offer);
  return sizeof offer;
}

void LocalHost::accept(Channel& channel, const DirectOffer& offer) noexcept {
  channel.direct.accept(offer);
  if (channel.slot != kNoSlot) board_.mark(channel.slot, channel.direct.kept());
}

bool LocalHost::may_read_directly(Channel& channel) noexcept {
  using State = DirectLink::State;
  DirectLink& direct = channel.direct;
  if (direct.consented && direct.state() != State::kUnproven) return direct.state() == State::kProven;
  const Address ours =
      name_by([](fid_ep* ep, void* name, std::size_t* len) { return fi_getname(&ep->fid, name, len); }, channel.ep);
  const Address theirs = name_by(fi_getpeer, channel.ep);
  if (!direct.consented) direct.consented = mailbox_.post(direct.mailbox(), {direct.kept(), kConsent, ours, theirs});
  if (direct.state() != State::kUnproven) return direct.state() == State::kProven;
  direct.prove(ours, theirs);
  if (direct.state() != State::kUnproven)
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "long messages of %s are read %s\n", channel.peer->address.to_string().c_str(),
            direct.state() == State::kProven ? "directly" : "over the connection: another process consented");
  return direct.state() == State::kProven;
}

bool LocalHost::read_directly(RemoteCopy& copy) noexcept {
  Channel& channel = *copy.channel;
  if (channel.direct.state() == DirectLink::State::kUnproven) drain_mailbox();  // the consent precedes the message
  copy.direct = may_read_directly(channel);
  if (!copy.direct) return false;
  iovec to[RemoteCopy::kMaxPieces], from[RemoteCopy::kMaxPieces];
  std::size_t count = 0, skipped = copy.copied, len = 0, total = 0;
  for (const RemoteCopy::Piece& piece : std::span(copy.pieces, copy.piece_count)) {
    total += piece.local.iov_len;
    const std::size_t size = piece.local.iov_len - std::min(skipped, piece.local.iov_len);
    const std::size_t part = std::min(size, kSlice - len);
    const std::size_t offset = piece.local.iov_len - size;
    skipped -= offset;
    if (part == 0) continue;
    to[count] = {static_cast<std::byte*>(piece.local.iov_base) + offset, part};
    from[count++] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(piece.place + offset)), part};
    len += part;
  }
  if (Status status = channel.direct.read({to, count}, {from, count}); !status.ok()) {
    FI_INFO(&provider(), FI_LOG_EP_DATA, "messages of %s are no longer read directly: %s\n",
            channel.peer->address.to_string().c_str(), fi_strerror(status.error()));
    copy.direct = false;
    return false;
  }
  copy.copied += len;
  if (copy.copied == total) copy.issued = copy.piece_count;
  return true;
}

bool LocalHost::drain_mailbox() noexcept {
  Wakeup wakeup;
  pid_t sender = 0;
  std::size_t found = 0;
  for (; found < kWakeups && mailbox_.take(wakeup, sender); ++found) {
    if (wakeup.message == kConsent)
      for (Channel& each : services_.channels) each.direct.on_consent(wakeup, sender);
    Transmit* transmit = client_.find_rendezvous(wakeup.message);
    if (transmit != nullptr && transmit->channel->direct.keeps(wakeup.proof)) client_.on_acknowledged(*transmit);
  }
  return found != 0;
}

// A wakeup may belong to news on the board. It is consumed now and wakes no other sleeper, so the board is read as
// well.
void LocalHost::read_mailbox() noexcept {
  if (drain_mailbox() && board_.has_news()) read_slots();
}

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

// ---- The sender of long messages ----

bool LocalHost::announce(Channel& channel, Transmit& transmit) noexcept {
  const bool by_wakeup = channel.slot == kNoSlot || !board_.is_used(channel.slot) ||
                         channel.direct.state() == DirectLink::State::kUnproven;  // its consent comes the same way
  if (by_wakeup && !std::exchange(transmit.awaits_wakeup, true)) ++awaited_wakeups_;
  if (!may_read_directly(channel)) return false;
  PeerBoard* const board = channel.direct.board();
  // An access to memory is not counted as a packet; it is known to have ended when a later packet has arrived.
  if (board == nullptr || channel.accesses || board->received() != channel.counts.sent) return false;
  if (!board->put_notice(channel.counts.notices_put, channel.direct.expected(), transmit.packet)) return false;
  ++channel.counts.notices_put;
  wake_reader(channel, *board);
  return true;
}

// ---- The receiver ----

bool LocalHost::post_read_done(Channel& channel, std::uint64_t message) noexcept {
  if (channel.direct.state() != DirectLink::State::kProven) return false;
  PeerBoard* const board = channel.direct.board();
  if (board == nullptr)
    return mailbox_.post(channel.direct.mailbox(), {.proof = channel.direct.expected(), .message = message});
  board->use();
  if (!board->put_done(message)) return false;
  wake_reader(channel, *board);
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
    if (!board_.take_notice(channel.slot, channel.counts.notices_taken, notice)) break;
    ++channel.counts.notices_taken;
    ++channel.activity;
    client_.on_notice(channel, notice);
  }
  return found;
}

}  // namespace weft::rxm
