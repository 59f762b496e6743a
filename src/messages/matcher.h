// SPDX-License-Identifier: BSD-2-Clause
// An arriving message as matching and completions need it, a message that arrived before its receive, and the
// requirements of a matcher: the rule that finds the receive of a message and the message of a receive, fi_msg(3) and
// fi_tagged(3). Fifo: no tags; TagList: tags of one source, in lists; TagTable: tags of many sources, hashed.
//
// In all of them messages of one source match in the order of their arrival, receives in the order of posting. Not
// thread-safe: the lock of the receive side's owner guards a matcher.
#pragma once

#include <rdma/fi_domain.h>

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/list.h"
#include "messages/posted_receive.h"
#include "messages/unexpected_memory.h"

namespace weft {
struct CompletionRoutes;
}

namespace weft::messages {

struct Envelope {
  std::uint64_t source = 0;  // number of the peer, for matching
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::size_t len = 0;
  fi_addr_t name = FI_ADDR_NOTAVAIL;  // the peer, for completions
  bool tagged = false;
  bool has_data = false;
  bool ignores_tag = false;  // matches untagged receives although it is tagged: the endpoint has no FI_TAGGED
  bool multicast = false;    // datagrams: it was sent to a group
  std::uint8_t context = 0;  // index of the receive context; see rdm::ReceiveSide::set_contexts()

  bool matches_by_tag() const noexcept { return tagged && !ignores_tag; }
  std::uint64_t matched_tag() const noexcept { return matches_by_tag() ? tag : 0; }
};

class Protocol;

struct PlaceTag;    // the list where matching looks for it; after FI_CLAIM, the claimed messages
struct ByTagTag;    // messages by tag only
struct ArrivalTag;  // all messages

// Base of a message that arrived before its receive. Its protocol owns it and its payload, which may still be arriving,
// be in the socket, or be at the sender.
struct UnexpectedMessage : ListHook<PlaceTag>, ListHook<ByTagTag>, ListHook<ArrivalTag> {
  Envelope envelope;
  void* claimer = nullptr;  // FI_CLAIM: the context that owns it

  // Set by ReceiveSide::keep().
  Protocol* protocol = nullptr;
  CompletionRoutes* routes = nullptr;  // where FI_PEEK reports it

  UnexpectedMessage() noexcept = default;
  ~UnexpectedMessage() {
    if (peer_ != nullptr) peer_->release(kept_);
  }
  // The message occupies another `bytes`, for as long as it exists.
  void charge(PeerMemory& peer, std::size_t bytes) noexcept {
    peer_ = &peer;
    kept_ += bytes;
    peer.add(bytes);
  }

 private:
  PeerMemory* peer_ = nullptr;
  std::size_t kept_ = 0;
};

// The owner of unexpected messages: an endpoint, or a queue that several endpoints share.
class Protocol {
 public:
  // The message has left the receive side for good; the protocol completes or fails `delivery`, now or later.
  virtual void take(UnexpectedMessage& message, const Delivery& delivery) noexcept = 0;
  // Likewise, but the payload is not needed.
  virtual void discard(UnexpectedMessage& message) noexcept = 0;
  // The source to report in completions; it may have become known after the message arrived.
  virtual fi_addr_t source_of(const UnexpectedMessage& message) noexcept { return message.envelope.name; }

 protected:
  ~Protocol() = default;
};

template <class M>
concept Matcher = std::derived_from<typename M::Receive, PostedReceive> &&
    requires(M& matcher, typename M::Receive& receive, const Wanted& wanted, const Envelope& envelope, void* context) {
  { receive.tag() } -> std::same_as<std::uint64_t>;  // for the completion of a cancelled receive
  {matcher.post(receive, wanted)};
  { matcher.match(envelope) } -> std::same_as<typename M::Receive*>;  // the oldest that matches; it stays posted
  {matcher.remove(receive)};                                          // takes a posted receive out
  { matcher.first() } -> std::same_as<typename M::Receive*>;          // any posted receive; nullptr: none
  { matcher.find_context(context) } -> std::same_as<typename M::Receive*>;
};

// A matcher that also keeps unexpected messages.
template <class M>
concept MessageMatcher = Matcher<M> && requires(M& matcher, UnexpectedMessage& message, const Wanted& wanted,
                                                bool tagged, void (&visit)(UnexpectedMessage&)) {
  {matcher.keep(message)};
  { matcher.find(tagged, wanted) } -> std::same_as<UnexpectedMessage*>;  // the oldest that matches; it stays kept
  {matcher.remove(message)};
  { matcher.has_messages(tagged) } -> std::same_as<bool>;
  {matcher.for_each_message(visit)};  // `visit` may remove the message
};

}  // namespace weft::messages
