// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a connected endpoint; see endpoint_receiver.h.
#include "tcp/connection/endpoint_receiver.h"

#include <new>
#include <utility>

namespace weft::tcp {

// ---- Posted receives ----

ssize_t ReceiveQueue::post(const ReceiveRequest& request, CompletionRoutes& routes) noexcept {
  if (shut_down_) [[unlikely]]
    return -FI_ESHUTDOWN;
  receives_tagged_ |= request.tagged;
  const bool searches = (request.flags & (FI_PEEK | FI_CLAIM)) != 0;
  const ssize_t result = searches ? peek_or_claim(request, routes) : ReceiveSide::post(request);
  if (result == 0 && !blocked_.empty()) resume_blocked();
  return result;
}

void ReceiveQueue::resume_blocked() noexcept {
  while (!blocked_.empty()) blocked_.pop_front().resume();
}

void ReceiveQueue::block(EndpointReceiver& receiver) noexcept {
  if (!blocked_.linked(receiver)) blocked_.push_back(receiver);
}

// ---- Messages that arrive ----

bool EndpointReceiver::take_whole(bool tagged, std::uint64_t tag, std::span<const std::byte> payload) noexcept {
  const messages::Envelope envelope{.tag = tag, .len = payload.size(), .tagged = tagged, .ignores_tag = ignores_tags()};
  if (!queue_->deliver(payload, envelope, routes)) return false;
  grace_.restart();
  return true;
}

messages::Envelope EndpointReceiver::envelope_of(const DataHeader& header) const noexcept {
  return {.tag = header.tag,
          .data = header.cq_data,
          .len = header.payload,
          .tagged = header.op == Op::kTagged,
          .has_data = header.has_cq_data(),
          .ignores_tag = ignores_tags()};
}

std::optional<MessageSink::Destination> EndpointReceiver::begin(const DataHeader& header) noexcept {
  if (header.op == Op::kAnnounced) {
    on_control(header);
    return {};
  }
  delivery_ = queue_->match(envelope_of(header));
  if (!delivery_) return begin_unexpected(header);
  grace_.restart();
  return Destination{delivery_.iov(), header.wants_ack()};
}

// Whether an unexpected message may be stored. If not, the peer waits. While an operation awaits an answer, which would
// be behind the message, only the limit of all peers applies.
bool EndpointReceiver::may_keep(const messages::Envelope& envelope) noexcept {
  if (envelope.len > SIZE_MAX - sizeof(Unexpected)) return false;
  const std::size_t bytes = sizeof(Unexpected) + envelope.len;
  if (!envelope.matches_by_tag() && !queue_->receives_tagged() && !stream_.awaits_answer())
    return bytes <= kMaxUnexpectedUntagged && used() <= kMaxUnexpectedUntagged - bytes;
  return has_room(bytes);
}

std::optional<MessageSink::Destination> EndpointReceiver::begin_unexpected(const DataHeader& header) noexcept {
  if (queue_->is_shut_down()) return Destination{{}, header.wants_ack()};
  if (grace_.may_wait(header.payload, stream_.engine().round())) {
    queue_->block(*this);
    stream_.resume();
    return {};
  }
  std::unique_ptr<Unexpected> message;
  const messages::Envelope envelope = envelope_of(header);
  if (may_keep(envelope)) {
    message.reset(new (std::nothrow) Unexpected);
    if (message) message->payload.reset(new (std::nothrow) std::byte[envelope.len]);
  }
  if (!message || !message->payload) {
    queue_->block(*this);
    return {};
  }
  message->envelope = envelope;
  message->place = {message->payload.get(), envelope.len};
  message->wants_ack = header.wants_ack();
  if (message->wants_ack) stream_.reserve_ack(message->ack);
  message->charge(*this, sizeof *message + envelope.len);
  unexpected_ = message.release();
  queue_->keep(*unexpected_, *this, routes);
  return Destination{{&unexpected_->place, 1}};
}

void EndpointReceiver::finish(const DataHeader& header) noexcept {
  if (unexpected_ == nullptr) {
    const messages::Delivery delivery = std::exchange(delivery_, {});
    if (delivery) queue_->complete(delivery, envelope_of(header), routes);
    return;
  }
  Unexpected& message = *std::exchange(unexpected_, nullptr);
  message.complete = true;
  if (message.taken) end_message(message);
}

bool EndpointReceiver::on_control(const DataHeader&) noexcept {
  stream_.protocol_error("message of the reliable-datagram protocol");
  return false;
}

// The partly received message is lost; complete unexpected messages can be received for a while.
void EndpointReceiver::abandon(int error, int native) noexcept {
  ListHook<BlockedTag>::unlink();
  stop_waiting();
  if (const messages::Delivery delivery = std::exchange(delivery_, {})) fail(delivery, error, native);
  if (unexpected_ == nullptr) return;
  Unexpected& partial = *std::exchange(unexpected_, nullptr);
  if (partial.wants_ack) stream_.acknowledge(partial.ack);
  if (!partial.taken) queue_->drop(partial);
  if (partial.taker) fail(partial.taker, error, native);
  delete &partial;
  queue_->resume_blocked();
}

// The completion describes the receive, because only a part of the message is known.
void EndpointReceiver::fail(const messages::Delivery& delivery, int error, int native) noexcept {
  const auto& receive = static_cast<const ReceiveQueue::Receive&>(delivery.receive());
  queue_->fail(delivery, {.tag = receive.tag(), .tagged = receive.tagged}, error, native, routes);
}

// ---- Unexpected messages that leave the queue ----

void EndpointReceiver::take(messages::UnexpectedMessage& taken, const messages::Delivery& delivery) noexcept {
  auto& message = static_cast<Unexpected&>(taken);
  message.taken = true;
  message.taker = delivery;
  if (message.complete) end_message(message);
}

// The message is complete, and was taken or discarded.
void EndpointReceiver::end_message(Unexpected& message) noexcept {
  if (const messages::Delivery& delivery = message.taker) {
    delivery.write({message.payload.get(), message.envelope.len});
    queue_->complete(delivery, message.envelope, routes);
  }
  if (message.wants_ack) stream_.acknowledge(message.ack);
  delete &message;
  queue_->resume_blocked();
  // A draining stream ends when its last unexpected message is taken.
  if (stream_.draining() && drained()) stream_.finish_end();
}

// ---- The end ----

// A shared context's receives stay, for its other endpoints.
void EndpointReceiver::stop_receiving() noexcept {
  constexpr int kWhy = FI_ECANCELED;
  if (const messages::Delivery delivery = std::exchange(delivery_, {})) {
    stream_.discard_rest();
    fail(delivery, kWhy, kWhy);
  }
  if (unexpected_ != nullptr)
    if (const messages::Delivery taker = std::exchange(unexpected_->taker, {})) fail(taker, kWhy, kWhy);
  end_receives(kWhy);
  ListHook<BlockedTag>::unlink();
  stop_waiting();
  queue_ = &own_receives_;
  own_receives_.shut_down();
  resume();
}

void EndpointReceiver::end_receives(int native) noexcept {
  queue_->discard_all(this);
  if (queue_ == &own_receives_) queue_->cancel_all(routes, native);
}

}  // namespace weft::tcp
