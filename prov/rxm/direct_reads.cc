// SPDX-License-Identifier: BSD-2-Clause
// Long messages between two processes of one host: their receiver copies them out of the sender's memory; direct_link.h
// has the rules. Whatever goes wrong, the message is read over the connection instead.
#include <rdma/providers/fi_log.h>

#include <algorithm>

#include "base/socket.h"
#include "rxm/domain.h"
#include "rxm/endpoint.h"
#include "rxm/provider.h"

namespace weft::rxm {
namespace {

// One system call's share of a message: other peers and the application have their turn in between.
constexpr std::size_t kSlice = std::size_t{1} << 20;

constexpr std::size_t kLetters = 64;  // taken before others have their turn

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

// The size of the offer to make; 0: none.
std::size_t Endpoint::offer_direct_reads(Channel& channel, DirectOffer& offer) noexcept {
  if (!direct_reads_ || !is_of_this_host(channel.peer->address)) return 0;
  const auto made = channel.direct.offer();
  if (!made) return 0;
  offer = *made;
  offer.mailbox = mailbox_.name();
  offer_board(channel, offer);
  return sizeof offer;
}

bool Endpoint::may_read_directly(Channel& channel) noexcept {
  if (channel.direct.state() == DirectLink::State::kUnproven) {
    const Address ours =
        name_by([](fid_ep* ep, void* name, std::size_t* len) { return fi_getname(&ep->fid, name, len); }, channel.ep);
    const Status status = channel.direct.prove(ours, name_by(fi_getpeer, channel.ep));
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "long messages of %s are read %s\n", channel.peer->address.to_string().c_str(),
            status.ok() ? "directly" : "over the connection: the process there does not show that it is the peer");
  }
  return channel.direct.state() == DirectLink::State::kProven;
}

// Copies the next slice; the read is over when all its pieces count as issued. False: it goes on over the connection.
bool Endpoint::read_directly(RemoteCopy& copy) noexcept {
  Channel& channel = *copy.channel;
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

// Acknowledges a message that was read directly; false: it has to be done over the connection.
bool Endpoint::post_read_done(Channel& channel, std::uint64_t message) noexcept {
  if (channel.direct.state() != DirectLink::State::kProven) return false;
  if (PeerBoard* const board = channel.direct.board(); board != nullptr) return put_done(channel, *board, message);
  return mailbox_.post(channel.direct.mailbox(), {.proof = channel.direct.expected(), .message = message});
}

std::size_t Endpoint::drain_mailbox() noexcept {
  Letter letter;
  std::size_t found = 0;
  for (; found < kLetters && mailbox_.take(letter); ++found) {
    Transmit* transmit = awaiting(letter.message);
    if (transmit != nullptr && transmit->channel->direct.keeps(letter.proof)) read_done(*transmit);
  }
  return found;
}

// A letter may have been about the board: somebody else, who is asleep, hears of that no more.
std::size_t Endpoint::read_mailbox() noexcept {
  const std::size_t found = drain_mailbox();
  return found != 0 && board_.has_news() ? found + read_lanes() : found;
}

}  // namespace weft::rxm
