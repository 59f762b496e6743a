// SPDX-License-Identifier: BSD-2-Clause
// Long messages between two processes of one host: the receiver copies them from the sender's memory by the rules of
// direct_link.h. After any failure the message is read over the connection instead.
#include <rdma/fi_cm.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>

#include "base/socket.h"
#include "rxm/local/local_host.h"
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

LocalHost::LocalHost(EndpointServices& services, PostedBuffers& posted, LocalClient& client) noexcept
    : services_(services), posted_(posted), client_(client) {}

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

bool LocalHost::post_read_done(Channel& channel, std::uint64_t message) noexcept {
  if (channel.direct.state() != DirectLink::State::kProven) return false;
  if (PeerBoard* const board = channel.direct.board(); board != nullptr) return put_done(channel, *board, message);
  return mailbox_.post(channel.direct.mailbox(), {.proof = channel.direct.expected(), .message = message});
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

}  // namespace weft::rxm
