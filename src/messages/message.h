// SPDX-License-Identifier: BSD-2-Clause
// An arriving message as matching and completions need it, and a message that arrived before its receive: fi_msg(3),
// fi_tagged(3).
#pragma once

#include <rdma/fi_domain.h>

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

 protected:
  ~Protocol() = default;
};

}  // namespace weft::messages
