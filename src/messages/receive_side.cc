// SPDX-License-Identifier: BSD-2-Clause
// Unexpected messages meet their receives; see receive_side.h.
#include "messages/receive_side.h"

namespace weft::messages {

template <class M>
ssize_t ReceiveSide<M>::post(const ReceiveRequest& request) noexcept {
  Receive* receive = nullptr;
  if (const ssize_t error = ReceiveQueue<M>::post(request, receive); error != 0) return error;
  if (this->matcher_.has_messages(request.tagged)) [[unlikely]]
    meet_messages(*receive, request);
  return 0;
}

// Completions may be written before the call that posts the buffer returns, because the application reads them later.
template <class M>
void ReceiveSide<M>::meet_messages(Receive& receive, const ReceiveRequest& request) noexcept {
  bool takes_more = true;
  while (takes_more) {
    UnexpectedMessage* message = this->matcher_.find(request.tagged, request.wanted);
    if (message == nullptr) return;
    drop(*message);
    const Delivery delivery = this->give(receive, message->envelope.len);
    takes_more = receive.takes_many() && !receive.retired;
    message->protocol->take(*message, delivery);  // may free the receive
  }
}

namespace {

constexpr std::uint64_t kind_of(const ReceiveRequest& request) noexcept {
  return FI_RECV | (request.tagged ? FI_TAGGED : FI_MSG);
}

void report_missing(const ReceiveRequest& request, CompletionRoutes& routes) noexcept {
  if (!routes.receive_queue) return;
  CompletionError missing;
  missing.context = request.context;
  missing.flags = kind_of(request);
  missing.tag = request.wanted.tag;
  missing.err = missing.prov_errno = FI_ENOMSG;
  routes.receive_queue->write_error(missing);
}

void report_found(const ReceiveRequest& request, const UnexpectedMessage& message) noexcept {
  if (!message.routes->receive_queue) return;
  const Envelope& found = message.envelope;
  message.routes->receive_queue->write({.context = request.context,
                                        .flags = kind_of(request) | (found.has_data ? FI_REMOTE_CQ_DATA : 0),
                                        .len = found.len,
                                        .data = found.data,
                                        .tag = found.tag,
                                        .src_addr = found.name});
}

}  // namespace

template <class M>
ssize_t ReceiveSide<M>::peek_or_claim(const ReceiveRequest& request, CompletionRoutes& routes) noexcept {
  const bool peek = (request.flags & FI_PEEK) != 0;
  const bool claim = (request.flags & FI_CLAIM) != 0;
  const bool discard_it = (request.flags & FI_DISCARD) != 0;
  if (claim && request.context == nullptr) return -FI_EINVAL;
  if (discard_it && peek && claim) return -FI_EINVAL;
  UnexpectedMessage* message = peek ? this->matcher_.find(request.tagged, request.wanted) : claimed_by(request.context);
  if (message == nullptr && !peek) return -FI_EINVAL;
  if (message == nullptr) {
    report_missing(request, routes);
    return 0;
  }
  if (!peek && !discard_it) {
    ReceiveRequest single = request;
    single.flags &= ~FI_MULTI_RECV;
    Receive* receive = this->make(single);
    if (receive == nullptr) return -FI_EAGAIN;
    drop(*message);
    message->protocol->take(*message, Delivery(*receive));
    return 0;
  }
  report_found(request, *message);
  if (discard_it) {
    discard(*message);
  } else if (claim) {
    this->matcher_.remove(*message);
    message->claimer = request.context;
    claimed_.push_back(*message);
  }
  return 0;
}

template <class M>
UnexpectedMessage* ReceiveSide<M>::claimed_by(void* context) noexcept {
  for (UnexpectedMessage& message : claimed_)
    if (message.claimer == context) return &message;
  return nullptr;
}

template <class M>
bool ReceiveSide<M>::keep(UnexpectedMessage& message, Protocol& protocol, CompletionRoutes& routes) noexcept {
  if (!this->matcher_.keep(message)) return false;
  message.protocol = &protocol;
  message.routes = &routes;
  return true;
}

template <class M>
void ReceiveSide<M>::drop(UnexpectedMessage& message) noexcept {
  if (message.claimer != nullptr)
    claimed_.unlink(message);
  else
    this->matcher_.remove(message);
  message.claimer = nullptr;
}

template <class M>
void ReceiveSide<M>::discard(UnexpectedMessage& message) noexcept {
  drop(message);
  message.protocol->discard(message);
}

template <class M>
void ReceiveSide<M>::discard_all(const Protocol* protocol) noexcept {
  const auto discard_matching = [&](UnexpectedMessage& message) {
    if (protocol == nullptr || message.protocol == protocol) discard(message);
  };
  this->matcher_.for_each_message(discard_matching);
  claimed_.for_each(discard_matching);
}

template class ReceiveSide<TagList>;
template class ReceiveSide<TagTable>;

}  // namespace weft::messages
