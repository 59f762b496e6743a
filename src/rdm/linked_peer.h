// SPDX-License-Identifier: BSD-2-Clause
// The record of a peer as far as its link needs it, in every protocol of reliable datagrams; see peer_link.h.
#pragma once

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <cstdint>
#include <thread>

#include "messages/matcher.h"
#include "rdm/peer_link.h"
#include "rdm/peer_table.h"

namespace weft::rdm {

// C: a connection. Owner: the endpoint, as long as it is in use. The engine's mutex guards it.
template <class C>
struct LinkedPeer : PeerBase, messages::PeerMemory {
  using PeerMemory::PeerMemory;

  std::uint32_t process = 0;  // at the other end of `channel`; 0: unknown
  LinkState link = LinkState::kNone;
  FirstContact contact;
  messages::PeerMemory copies{nullptr};  // messages that the peer has not fetched
  C* channel = nullptr;                  // for sending
  C* beside = nullptr;                   // another connection of the peer; where it is ourselves, the end of `channel`
  Deadline deadline;                     // for connecting
  bool has_rejected = false;             // a request on this link
  std::uint32_t channels = 0;            // that exist, including closed ones
  std::uint32_t messages = 0;            // that are unexpected and not yet received

  // P has operations that wait, and timers.
  bool in_use() const noexcept {
    return channels != 0 || messages != 0 || link != LinkState::kNone || copies.used() != 0 || awaits_room();
  }

  // A request of that process may be about this peer, although it comes from another address.
  bool may_have_requested(std::uint32_t requester) const noexcept {
    return link < LinkState::kAccepting || process != requester;
  }
  // A request has come from the peer's address. `own`: our address; `restarted`: by another process.
  LinkStep on_request(LinkState state, const Address& own, bool restarted, fi_provider& provider) noexcept {
    const LinkStep step = next(state, address == own ? LinkEvent::kOwnRequest : LinkEvent::kRequest,
                               {.from_greater = own < address,
                                .restarted = restarted,
                                .duplicate = beside != nullptr,
                                .repeated = has_rejected});
    has_rejected |= state >= LinkState::kOpen && (step.actions & kLinkReject) != 0;
    if (step.crossed)
      FI_INFO(&provider, FI_LOG_EP_CTRL, "the request of %s crossed ours, which %s\n", address.to_string().c_str(),
              (step.actions & kLinkReject) != 0 ? "stays" : "gives way");
    return step;
  }
  // The connection has ended.
  void detach(const C& connection) noexcept {
    if (beside == &connection) beside = nullptr;
    if (channel != &connection) return;
    channel = nullptr;
    link = LinkState::kNone;
    process = 0;
    has_rejected = false;
  }
};

// An unexpected message of a peer, which stays in its table meanwhile. P: a LinkedPeer.
template <class P>
struct PeerMessage : messages::UnexpectedMessage {
  PeerMessage() noexcept = default;
  ~PeerMessage() {
    if (peer != nullptr) --peer->messages;
  }
  void set_peer(P& sender) noexcept {
    peer = &sender;
    ++sender.messages;
  }

  P* peer = nullptr;
};

// How long a call without a completion makes progress for its connection.
inline constexpr auto kMostTimeForContact = std::chrono::milliseconds(10);

// Makes progress for an operation that has no completion and waits for a connection, because its program may not read a
// queue soon. The first operation that waits for a peer may be the program's only call: it makes progress until the
// operation has left, for at most kMostTimeForContact. E: an engine whose mutex is held; P: see holds_injected().
template <class E, class P>
void advance_contact(E& engine, P& peer) noexcept {
  if (engine.must_send_now()) return;  // a thread that sleeps makes progress
  const bool first = &peer.waiting.front() == &peer.waiting.back();
  engine.progress();
  if (!first) return;
  const Deadline limit(Clock::now() + kMostTimeForContact);
  while (!peer.waiting.empty() && peer.link != LinkState::kNone && peer.link != LinkState::kRejected &&
         !limit.expired()) {
    std::this_thread::yield();
    engine.progress();
  }
}

// Whether injected operations wait for a connection. `routes`: only those that complete there; null: all. P: a
// LinkedPeer whose list `waiting` has the requests.
template <class P>
bool holds_injected(PeerTable<P>& peers, const CompletionRoutes* routes) noexcept {
  bool found = false;
  peers.for_each([&](P& peer) {
    for (const auto& each : peer.waiting)
      found |= each.request.silent && (each.request.flags & FI_INJECT) != 0 &&
               (routes == nullptr || each.request.routes == routes);
  });
  return found;
}

}  // namespace weft::rdm
