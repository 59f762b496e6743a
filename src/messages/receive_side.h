// SPDX-License-Identifier: BSD-2-Clause
// Posted receives together with the messages that arrived before theirs: FI_PEEK, FI_CLAIM and FI_DISCARD of
// fi_tagged(3). An endpoint or a receive context has one; several endpoints may bring messages to the same one.
#pragma once

#include "messages/receive_queue.h"
#include "messages/tag_list.h"
#include "messages/tag_table.h"
#include "objects/completion_routes.h"

namespace weft::messages {

// Calls for unexpected messages are out of line, so that callers on the data path save no registers for them.
template <class M>
class ReceiveSide : public ReceiveQueue<M> {
  static_assert(MessageMatcher<M>);

 public:
  using typename ReceiveQueue<M>::Receive;
  using ReceiveQueue<M>::ReceiveQueue;

  // As ReceiveQueue::post(); the receive then takes the message that waits for it, or several with FI_MULTI_RECV.
  [[gnu::always_inline]] ssize_t post(const ReceiveRequest& request) noexcept {
    Receive* receive = nullptr;
    if (const ssize_t error = ReceiveQueue<M>::post(request, receive); error != 0) return error;
    if (this->matcher_.has_messages(request.tagged)) [[unlikely]]
      match_kept_messages(*receive, ReceiveRequest(request));  // so that `request` itself may stay in registers
    return 0;
  }

  // FI_PEEK, FI_CLAIM, FI_DISCARD. 0; -FI_EAGAIN when memory runs out; -FI_EINVAL. The outcome of a search is an entry
  // in the receive queue: the description of the message, or FI_ENOMSG in `routes`.
  [[gnu::noinline]] ssize_t peek_or_claim(const ReceiveRequest& request, CompletionRoutes& routes) noexcept {
    const bool peek = (request.flags & FI_PEEK) != 0;
    const bool claim = (request.flags & FI_CLAIM) != 0;
    const bool discard_it = (request.flags & FI_DISCARD) != 0;
    if (claim && request.context == nullptr) return -FI_EINVAL;
    if (discard_it && peek && claim) return -FI_EINVAL;
    UnexpectedMessage* message =
        peek ? this->matcher_.find(request.tagged, request.wanted) : claimed_by(request.context);
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
      name_source(*message);
      message->protocol->take(*message, Delivery(*receive));
      return 0;
    }
    name_source(*message);
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

  // Keeps a message that match() found no receive for; its envelope is set. `routes`: where it will complete.
  [[gnu::noinline]] void keep(UnexpectedMessage& message, Protocol& protocol, CompletionRoutes& routes) noexcept {
    this->matcher_.keep(message);
    message.protocol = &protocol;
    message.routes = &routes;
  }
  // The messages of `protocol`, or of all with nullptr, are discarded.
  [[gnu::noinline]] void discard_all(const Protocol* protocol) noexcept {
    const auto discard_matching = [&](UnexpectedMessage& message) {
      if (protocol == nullptr || message.protocol == protocol) discard(message);
    };
    this->matcher_.for_each_message(discard_matching);
    claimed_.for_each(discard_matching);
  }
  // Takes the message out of the matcher, or out of the claimed messages.
  [[gnu::noinline]] void drop(UnexpectedMessage& message) noexcept {
    if (message.claimer != nullptr)
      claimed_.unlink(message);
    else
      this->matcher_.remove(message);
    message.claimer = nullptr;
  }

 private:
  // Completions may be written before the call that posts the buffer returns, because the application reads them later.
  [[gnu::noinline]] void match_kept_messages(Receive& receive, const ReceiveRequest& request) noexcept {
    bool takes_more = true;
    while (takes_more) {
      UnexpectedMessage* message = this->matcher_.find(request.tagged, request.wanted);
      if (message == nullptr) return;
      drop(*message);
      name_source(*message);
      const Delivery delivery = this->give(receive, message->envelope.len);
      takes_more = receive.takes_many() && !receive.retired;
      message->protocol->take(*message, delivery);  // may free the receive
    }
  }
  static void name_source(UnexpectedMessage& message) noexcept {
    message.envelope.name = message.protocol->source_of(message);
  }
  UnexpectedMessage* claimed_by(void* context) noexcept {
    for (UnexpectedMessage& message : claimed_)
      if (message.claimer == context) return &message;
    return nullptr;
  }
  void discard(UnexpectedMessage& message) noexcept {
    drop(message);
    message.protocol->discard(message);
  }

  static constexpr std::uint64_t kind_of(const ReceiveRequest& request) noexcept {
    return FI_RECV | (request.tagged ? FI_TAGGED : FI_MSG);
  }
  static void report_missing(const ReceiveRequest& request, CompletionRoutes& routes) noexcept {
    if (!routes.receive_queue) return;
    CompletionError missing;
    missing.context = request.context;
    missing.flags = kind_of(request);
    missing.tag = request.wanted.tag;
    missing.err = missing.prov_errno = FI_ENOMSG;
    routes.receive_queue->write_error(missing);
  }
  static void report_found(const ReceiveRequest& request, const UnexpectedMessage& message) noexcept {
    if (!message.routes->receive_queue) return;
    const Envelope& found = message.envelope;
    message.routes->receive_queue->write({.context = request.context,
                                          .flags = kind_of(request) | (found.has_data ? FI_REMOTE_CQ_DATA : 0),
                                          .len = found.len,
                                          .data = found.data,
                                          .tag = found.tag,
                                          .src_addr = found.name});
  }

  List<UnexpectedMessage, PlaceTag> claimed_;
};

}  // namespace weft::messages
