// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a reliable-datagram endpoint, whatever protocol brings the messages: posted receives, messages
// that came too early, FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV, cancellation; fi_msg(3), fi_tagged(3).
//
// Not thread-safe: the engine's mutex guards it. Nothing here knows what travels on the wire.
#pragma once

#include <rdma/fi_endpoint.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/list.h"
#include "base/pool.h"
#include "objects/completion_routes.h"
#include "rdm/matching.h"

namespace weft::rdm {

inline constexpr std::size_t kIovLimit = 4;
inline constexpr std::size_t kDefaultMinMultiReceive = 64;

// A posted receive buffer.
struct Receive : PostedEntry {
  iovec iov[kIovLimit];
  std::uint32_t iov_count = 0;
  bool tagged = false;
  bool retired = false;   // FI_MULTI_RECV: takes no further message
  unsigned arriving = 0;  // messages that hold a piece of it
  std::size_t len = 0;    // of all of iov
  std::size_t used = 0;   // FI_MULTI_RECV: bytes given to messages so far
  void* context = nullptr;
  std::uint64_t flags = 0;  // FI_COMPLETION, FI_MULTI_RECV
};

// What a message says of itself.
struct Envelope {
  std::uint64_t source = 0;  // number of the peer, for matching
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::size_t len = 0;
  fi_addr_t name = FI_ADDR_NOTAVAIL;  // of the peer, for completions
  bool tagged = false;
  bool has_data = false;
  std::uint8_t context = 0;  // receive context that it is for; see ReceiveSide::name_contexts()
};

// What one message gets of a posted receive: all of it, or for FI_MULTI_RECV the next part.
class Delivery {
 public:
  Delivery() noexcept = default;
  // `part`: the next piece of a multi-receive buffer.
  Delivery(Receive& receive, const iovec& part) noexcept : receive_(&receive), part_(part) {}
  explicit Delivery(Receive& receive) noexcept : receive_(&receive), part_{nullptr, receive.len} {}

  Receive& receive() const noexcept { return *receive_; }
  explicit operator bool() const noexcept { return receive_ != nullptr; }
  std::size_t capacity() const noexcept { return part_.iov_len; }
  void* piece() const noexcept { return part_.iov_base; }  // FI_MULTI_RECV only
  std::span<const iovec> iov() const noexcept {
    if (part_.iov_base != nullptr) return {&part_, 1};
    return {receive_->iov, receive_->iov_count};
  }

 private:
  Receive* receive_ = nullptr;
  iovec part_{};
};

class ReceiveSide;

// Base of a message that came before its receive. Its protocol owns it and knows where the payload is.
struct Message : ArrivedEntry {
  Envelope envelope;
  std::size_t kept = 0;           // bytes that it occupies
  void* claimer = nullptr;        // FI_CLAIM: the context that owns it
  ReceiveSide* keeper = nullptr;  // of the endpoint that it came to
};

class Protocol {
 public:
  // `message` has left the receive side for good; the protocol completes or fails `delivery`, now or later.
  virtual void take(Message& message, const Delivery& delivery) noexcept = 0;
  virtual void discard(Message& message) noexcept = 0;

 protected:
  ~Protocol() = default;
};

struct ReceiveRequest {
  std::span<const iovec> iov = {};
  void* context = nullptr;
  std::uint64_t flags = 0;  // FI_COMPLETION, FI_MULTI_RECV; tagged: FI_PEEK, FI_CLAIM, FI_DISCARD
  bool tagged = false;
  Wanted wanted = {};
};

class ReceiveSide {
 public:
  // Of an endpoint.
  ReceiveSide(Protocol& protocol, CompletionRoutes& routes) noexcept : protocol_(&protocol), routes_(routes) {}
  // Of a receive context, whose messages are those of endpoints. It outlives the last of them.
  explicit ReceiveSide(CompletionRoutes& routes) noexcept : protocol_(nullptr), routes_(routes) {}
  ~ReceiveSide();

  // Of a scalable endpoint: from now on this is but the way to its receive contexts, which messages name by index and
  // which have completions of their own.
  void name_contexts(std::vector<ReceiveSide*> contexts) noexcept { contexts_ = std::move(contexts); }
  // Of an endpoint with a shared receive context: receives are posted there, completions are the endpoint's.
  void share(ReceiveSide& context) {
    contexts_ = {&context};
    shares_ = true;
  }
  bool has_contexts() const noexcept { return !contexts_.empty() && !shares_; }
  // Who has no contexts does not look at the index: not everybody sets it.
  bool takes(std::size_t context) const noexcept { return contexts_.empty() || shares_ || context < contexts_.size(); }

  // Application's side. 0, -FI_EAGAIN when memory runs out, -FI_EINVAL; `cancel` also -FI_ENOENT.
  ssize_t post(const ReceiveRequest& request) noexcept;
  ssize_t peek_or_claim(const ReceiveRequest& request) noexcept;
  ssize_t cancel(void* context) noexcept;
  // The end of an endpoint or of a context. What is posted to a shared context stays, for other endpoints.
  void cancel_all() noexcept;

  // Protocol's side: who takes such a message? If nobody does, the protocol makes a Message and keeps it.
  Delivery match(const Envelope& envelope) noexcept {
    ReceiveSide& side = side_of(envelope);
    Receive* receive = side.posted(envelope.tagged).match(envelope.source, envelope.tag);
    return receive == nullptr ? Delivery() : side.give(*receive, envelope.len);
  }
  // False when memory runs out.
  bool keep(Message& message) noexcept;
  // The message, which is kept, occupies another `bytes` from now on.
  void grow(Message& message, std::size_t bytes) noexcept {
    message.kept += bytes;
    kept_bytes_ += bytes;
  }
  // What waits for receives has this many bytes.
  std::size_t kept_bytes() const noexcept { return kept_bytes_; }

  // The message is where it belongs; one that was longer than its receive is reported as FI_ETRUNC.
  void complete(const Delivery& delivery, const Envelope& envelope) noexcept;
  void fail(const Delivery& delivery, const Envelope& envelope, int error, int native) noexcept;

  std::size_t min_multi_receive = kDefaultMinMultiReceive;

 private:
  ReceiveSide& side_of(const Envelope& envelope) noexcept {
    return contexts_.empty() ? *this : *contexts_[envelope.context];
  }
  // Where what came to this endpoint completes, once it has met a receive at `side`.
  CompletionRoutes& routes_at(ReceiveSide& side) noexcept { return shares_ ? routes_ : side.routes_; }
  PostedReceives<Receive>& posted(bool tagged) noexcept { return tagged ? tagged_ : untagged_; }
  ArrivedMessages<Message>& arrived(bool tagged) noexcept { return tagged ? tagged_messages_ : untagged_messages_; }
  void meet_arrived(Receive& receive) noexcept;
  Receive* make_receive(const ReceiveRequest& request) noexcept;
  // A multi-receive buffer stays posted while it takes messages; others leave with their first.
  Delivery give(Receive& receive, std::size_t len) noexcept {
    ++receive.arriving;
    if ((receive.flags & FI_MULTI_RECV) != 0) [[unlikely]]
      return give_part(receive, len);
    posted(receive.tagged).remove(receive);
    return Delivery(receive);
  }
  Delivery give_part(Receive& receive, std::size_t len) noexcept;
  void release(Receive& receive) noexcept;
  void cancel(Receive& receive) noexcept;
  void drop(Message& message) noexcept;
  void discard(Message& message) noexcept;
  void discard_all(const ReceiveSide* keeper) noexcept;

  Protocol* const protocol_;
  CompletionRoutes& routes_;
  PostedReceives<Receive> untagged_, tagged_;
  ArrivedMessages<Message> untagged_messages_, tagged_messages_;
  List<Message, PlaceTag> claimed_;
  std::size_t kept_bytes_ = 0;          // of an endpoint, whatever contexts they wait at
  std::vector<ReceiveSide*> contexts_;  // in which messages meet receives; none: here
  bool shares_ = false;                 // that is one, and not ours alone
  Pool<Receive> receives_;
};

// Copies `len` bytes at most into `iov`, beginning `offset` bytes into it; returns how many fitted.
std::size_t scatter(std::span<const iovec> iov, std::size_t offset, const std::byte* from, std::size_t len) noexcept;

}  // namespace weft::rdm
