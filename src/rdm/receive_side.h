// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a reliable-datagram endpoint or of a receive context: messages/receive_side.h, and the way from
// an endpoint to the contexts that its messages are for; fi_endpoint(3), SCALABLE ENDPOINTS and SHARED CONTEXTS.
//
// Not thread-safe: the engine's mutex guards it.
#pragma once

#include <utility>
#include <vector>

#include "messages/receive_side.h"

namespace weft::rdm {

using messages::Delivery, messages::Envelope, messages::Protocol;
using Message = messages::UnexpectedMessage;

// Receive contexts of an endpoint: on both wires their index has eight bits.
inline constexpr std::size_t kMaxContexts = 256;

struct OwnReceivePool {
  Pool<messages::TagTable::Receive> receive_pool;
};

class ReceiveSide : private OwnReceivePool, public messages::ReceiveSide<messages::TagTable> {
 public:
  // For an endpoint.
  ReceiveSide(Protocol& protocol, CompletionRoutes& routes) noexcept
      : messages::ReceiveSide<messages::TagTable>(receive_pool), protocol_(&protocol), routes_(routes) {}
  // For a receive context: its messages belong to endpoints. It outlives the last of them.
  explicit ReceiveSide(CompletionRoutes& routes) noexcept
      : messages::ReceiveSide<messages::TagTable>(receive_pool), protocol_(nullptr), routes_(routes) {}

  // For a scalable endpoint: from now on its messages go to these contexts, which they name by index and which have
  // completions of their own.
  void set_contexts(std::vector<ReceiveSide*> contexts) noexcept {
    contexts_ = std::move(contexts);
    forwards_ = !contexts_.empty();
  }
  // For an endpoint with a shared receive context: receives are posted there, completions are the endpoint's.
  void share(ReceiveSide& context) {
    contexts_ = {&context};
    forwards_ = shares_ = true;
  }
  bool has_contexts() const noexcept { return forwards_ && !shares_; }
  // Without contexts, the index is ignored: not every sender sets it.
  bool takes(std::size_t context) const noexcept { return !forwards_ || shares_ || context < contexts_.size(); }

  // Whether the message has matched a receive of `context`.
  bool meets_at(const ReceiveSide& context, const Delivery& delivery, const Envelope& envelope) const noexcept {
    return delivery && forwards_ && contexts_[envelope.context] == &context;
  }

  // ---- The application's side; beside post() ----

  ssize_t peek_or_claim(const ReceiveRequest& request) noexcept { return Base::peek_or_claim(request, routes_); }
  // 0 or -FI_ENOENT.
  ssize_t cancel(void* context) noexcept { return Base::cancel(context, routes_) ? 0 : -FI_ENOENT; }
  // The end of an endpoint or of a context. Receives that are posted to a shared context stay, for other endpoints.
  void cancel_all() noexcept {
    if (shares_) return contexts_.front()->discard_all(protocol_);
    for (ReceiveSide* context : contexts_) context->cancel_all();
    Base::cancel_all(routes_);
    discard_all(nullptr);
  }

  // ---- The protocol's side ----

  Delivery match(const Envelope& envelope) noexcept { return side_of(envelope).Base::match(envelope); }
  // As match(), a copy and complete(), for a message whose payload is at hand. False: nothing is posted for it.
  [[gnu::always_inline]] bool deliver(std::span<const std::byte> payload, const Envelope& envelope) noexcept {
    if (forwards_) [[unlikely]] {
      const Envelope copy = envelope;  // so that `envelope` itself may stay in registers
      return forward(payload, copy);
    }
    return Base::deliver(payload, envelope, routes_);
  }
  void keep(Message& message) noexcept {
    ReceiveSide& side = side_of(message.envelope);
    side.Base::keep(message, *protocol_, routes_at(side));
  }
  void drop(Message& message) noexcept { side_of(message.envelope).Base::drop(message); }
  [[gnu::noinline]] void complete(const Delivery& delivery, const Envelope& envelope) noexcept {
    ReceiveSide& side = side_of(envelope);
    side.Base::complete(delivery, envelope, routes_at(side));
  }
  void fail(const Delivery& delivery, const Envelope& envelope, int error, int native) noexcept {
    ReceiveSide& side = side_of(envelope);
    side.Base::fail(delivery, envelope, error, native, routes_at(side));
  }

 private:
  using Base = messages::ReceiveSide<messages::TagTable>;

  [[gnu::noinline]] bool forward(std::span<const std::byte> payload, const Envelope& envelope) noexcept {
    ReceiveSide& side = side_of(envelope);
    return side.Base::deliver(payload, envelope, routes_at(side));
  }
  ReceiveSide& side_of(const Envelope& envelope) noexcept { return forwards_ ? *contexts_[envelope.context] : *this; }
  // Where a message of this endpoint completes after it matched a receive of `side`.
  CompletionRoutes& routes_at(ReceiveSide& side) noexcept { return shares_ ? routes_ : side.routes_; }

  Protocol* const protocol_;
  CompletionRoutes& routes_;
  std::vector<ReceiveSide*> contexts_;  // owners of the receives that messages match; none: this object
  bool forwards_ = false;               // there are contexts
  bool shares_ = false;                 // there is one context, and other endpoints share it
};

}  // namespace weft::rdm
