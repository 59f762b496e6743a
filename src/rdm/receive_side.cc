// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a reliable-datagram endpoint; see receive_side.h.
#include "rdm/receive_side.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <cstring>

namespace weft::rdm {

std::size_t scatter(std::span<const iovec> iov, std::size_t offset, const std::byte* from, std::size_t len) noexcept {
  std::size_t copied = 0;
  for (const iovec& piece : iov) {
    if (offset >= piece.iov_len) {
      offset -= piece.iov_len;
      continue;
    }
    const std::size_t size = std::min(piece.iov_len - offset, len - copied);
    if (size != 0) std::memcpy(static_cast<std::byte*>(piece.iov_base) + offset, from + copied, size);
    copied += size;
    offset = 0;
    if (copied == len) break;
  }
  return copied;
}

// Whoever closes an endpoint cancels and discards first; what is left needs no report.
ReceiveSide::~ReceiveSide() {
  for (bool tagged : {false, true})
    while (!posted(tagged).empty()) {
      Receive& receive = posted(tagged).all().front();
      posted(tagged).remove(receive);
      receives_.give_back(&receive);
    }
}

[[gnu::always_inline]] inline Receive* ReceiveSide::make_receive(const ReceiveRequest& request) noexcept {
  Receive* receive = receives_.take();
  if (receive == nullptr) return nullptr;
  for (const iovec& piece : request.iov) {
    receive->iov[receive->iov_count++] = piece;
    receive->len += piece.iov_len;
  }
  receive->context = request.context;
  receive->flags = request.flags & (FI_COMPLETION | FI_MULTI_RECV);
  receive->tagged = request.tagged;
  receive->wanted = request.wanted;
  return receive;
}

Delivery ReceiveSide::give_part(Receive& receive, std::size_t len) noexcept {
  const std::size_t room = receive.len - receive.used;
  const iovec part{static_cast<std::byte*>(receive.iov[0].iov_base) + receive.used, std::min(room, len)};
  receive.used += part.iov_len;
  if (receive.len - receive.used < min_multi_receive || part.iov_len < len) {
    receive.retired = true;
    posted(receive.tagged).remove(receive);
  }
  return Delivery(receive, part);
}

void ReceiveSide::release(Receive& receive) noexcept {
  --receive.arriving;
  if ((receive.flags & FI_MULTI_RECV) && (!receive.retired || receive.arriving != 0)) return;
  receives_.give_back(&receive);
}

namespace {

// What both kinds of ends have in common. Whether the completion may not be left out.
[[gnu::always_inline]] inline bool settle(const Delivery& delivery, const Envelope& envelope,
                                          const CompletionRoutes& routes, Completion& done) noexcept {
  const Receive& receive = delivery.receive();
  std::uint64_t flags = FI_RECV | (envelope.tagged ? FI_TAGGED : FI_MSG);
  if (envelope.has_data) flags |= FI_REMOTE_CQ_DATA;
  bool report = routes.reports_received(receive.flags);
  // The buffer's last completion gives it back to the application; that one is never left out.
  if ((receive.flags & FI_MULTI_RECV) && receive.retired && receive.arriving == 1) {
    flags |= FI_MULTI_RECV;
    report = true;
  }
  done.context = receive.context;
  done.flags = flags;
  done.data = envelope.data;
  done.tag = envelope.tag;
  done.src_addr = envelope.name;
  done.buf = delivery.piece();
  return report;
}

}  // namespace

void ReceiveSide::complete(const Delivery& delivery, const Envelope& envelope) noexcept {
  ReceiveSide& side = side_of(envelope);
  CompletionRoutes& routes = routes_at(side);
  Completion done;
  const bool report = settle(delivery, envelope, routes, done);
  if (envelope.len > delivery.capacity()) [[unlikely]] {
    done.len = delivery.capacity();
    routes.receive_failed({done, envelope.len - delivery.capacity(), FI_ETRUNC, FI_ETRUNC});
  } else {
    done.len = envelope.len;
    routes.received(done, report);
  }
  side.release(delivery.receive());
}

void ReceiveSide::fail(const Delivery& delivery, const Envelope& envelope, int error, int native) noexcept {
  ReceiveSide& side = side_of(envelope);
  CompletionRoutes& routes = routes_at(side);
  CompletionError failed;
  settle(delivery, envelope, routes, failed);
  failed.err = error;
  failed.prov_errno = native;
  routes.receive_failed(failed);
  side.release(delivery.receive());
}

bool ReceiveSide::keep(Message& message) noexcept {
  message.source = message.envelope.source;
  message.tag = message.envelope.tag;
  if (!side_of(message.envelope).arrived(message.envelope.tagged).keep(message)) return false;
  message.keeper = this;
  kept_bytes_ += message.kept;
  return true;
}

void ReceiveSide::drop(Message& message) noexcept {
  if (message.claimer != nullptr)
    static_cast<ListHook<PlaceTag>&>(message).unlink();
  else
    arrived(message.envelope.tagged).remove(message);
  message.claimer = nullptr;
  message.keeper->kept_bytes_ -= message.kept;
}

void ReceiveSide::discard(Message& message) noexcept {
  drop(message);
  message.keeper->protocol_->discard(message);
}

ssize_t ReceiveSide::post(const ReceiveRequest& request) noexcept {
  const bool multi = (request.flags & FI_MULTI_RECV) != 0;
  if (request.iov.size() > kIovLimit || (multi && request.iov.size() != 1)) return -FI_EINVAL;
  Receive* receive = make_receive(request);
  if (receive == nullptr) return -FI_EAGAIN;
  if (!posted(request.tagged).post(*receive)) {
    receives_.give_back(receive);
    return -FI_EAGAIN;
  }
  if (!arrived(request.tagged).empty()) [[unlikely]]
    meet_arrived(*receive);
  return 0;
}

// The application may get no completion of a buffer before the call that posts it has returned; but it may before it
// reads its queue, so this is in time.
void ReceiveSide::meet_arrived(Receive& receive) noexcept {
  const bool multi = (receive.flags & FI_MULTI_RECV) != 0;
  const Wanted wanted = receive.wanted;  // the receive may be gone after its last message
  ArrivedMessages<Message>& waiting = arrived(receive.tagged);
  while (Message* message = waiting.find(wanted)) {
    drop(*message);
    const Delivery delivery = give(receive, message->envelope.len);
    const bool last = !multi || receive.retired;
    message->keeper->protocol_->take(*message, delivery);
    if (last) return;
  }
}

ssize_t ReceiveSide::peek_or_claim(const ReceiveRequest& request) noexcept {
  const bool peek = (request.flags & FI_PEEK) != 0;
  const bool claim = (request.flags & FI_CLAIM) != 0;
  const bool discard = (request.flags & FI_DISCARD) != 0;
  if (claim && request.context == nullptr) return -FI_EINVAL;
  if ((discard && peek && claim) || request.iov.size() > kIovLimit) return -FI_EINVAL;
  Message* message = nullptr;
  if (peek) {
    message = arrived(request.tagged).find(request.wanted);
  } else {
    for (Message& each : claimed_)
      if (each.claimer == request.context) message = &each;
    if (message == nullptr) return -FI_EINVAL;
  }
  const uint64_t kind = FI_RECV | (request.tagged ? FI_TAGGED : FI_MSG);
  if (message == nullptr) {
    CompletionError missing;
    missing.context = request.context;
    missing.flags = kind;
    missing.tag = request.wanted.tag;
    missing.err = missing.prov_errno = FI_ENOMSG;
    if (routes_.receive_queue) routes_.receive_queue->write_error(missing);
    return 0;
  }
  if (!peek && !discard) {
    Receive* receive = make_receive(request);
    if (receive == nullptr) return -FI_EAGAIN;
    receive->flags &= ~FI_MULTI_RECV;
    receive->arriving = 1;
    drop(*message);
    message->keeper->protocol_->take(*message, Delivery(*receive));
    return 0;
  }
  const Envelope& found = message->envelope;
  if (CompletionRoutes& routes = message->keeper->routes_at(*this); routes.receive_queue) {
    routes.receive_queue->write({.context = request.context,
                                 .flags = kind | (found.has_data ? FI_REMOTE_CQ_DATA : 0),
                                 .len = found.len,
                                 .data = found.data,
                                 .tag = found.tag,
                                 .src_addr = found.name});
  }
  if (discard) {
    this->discard(*message);
  } else if (claim) {
    arrived(request.tagged).remove(*message);
    message->claimer = request.context;
    claimed_.push_back(*message);
  }
  return 0;
}

void ReceiveSide::cancel(Receive& receive) noexcept {
  posted(receive.tagged).remove(receive);
  receive.retired = true;
  if (receive.arriving != 0) return;  // the message in it completes it
  CompletionError cancelled;
  cancelled.context = receive.context;
  cancelled.flags = FI_RECV | (receive.tagged ? FI_TAGGED : FI_MSG) | (receive.flags & FI_MULTI_RECV);
  cancelled.tag = receive.wanted.tag;
  cancelled.err = cancelled.prov_errno = FI_ECANCELED;
  routes_.receive_failed(cancelled);
  receives_.give_back(&receive);
}

ssize_t ReceiveSide::cancel(void* context) noexcept {
  for (bool tagged : {false, true}) {
    for (Receive& receive : posted(tagged).all()) {
      if (receive.context != context) continue;
      cancel(receive);
      return 0;
    }
  }
  return -FI_ENOENT;
}

// All messages, or those of one endpoint.
void ReceiveSide::discard_all(const ReceiveSide* keeper) noexcept {
  const auto discard_from = [&](auto& messages) {
    for (auto it = messages.begin(); it != messages.end();) {
      Message& message = *it;
      ++it;
      if (keeper == nullptr || message.keeper == keeper) discard(message);
    }
  };
  for (bool tagged : {false, true}) discard_from(arrived(tagged).all());
  discard_from(claimed_);
}

void ReceiveSide::cancel_all() noexcept {
  if (shares_) return contexts_.front()->discard_all(this);
  for (ReceiveSide* context : contexts_) context->cancel_all();
  for (bool tagged : {false, true})
    while (!posted(tagged).empty()) cancel(posted(tagged).all().front());
  discard_all(nullptr);
}

}  // namespace weft::rdm
