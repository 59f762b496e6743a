// SPDX-License-Identifier: BSD-2-Clause
// Posting receives, peeking and claiming; see receive_posting.h.
#include "tcp/receive_posting.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <algorithm>

namespace weft::tcp {
namespace {

[[gnu::always_inline]] inline Receive* make_receive(TransferPools& pools, const ReceiveRequest& request) noexcept {
  Receive* receive = pools.receives.take();
  if (receive == nullptr) return nullptr;
  if (request.iov.size() == 1) [[likely]] {
    receive->iov[0] = request.iov[0];
    receive->len = request.iov[0].iov_len;
  } else {
    std::copy(request.iov.begin(), request.iov.end(), receive->iov);
    receive->len = total_length(request.iov);
  }
  receive->iov_count = request.iov.size();
  receive->context = request.context;
  receive->flags = request.flags & (FI_COMPLETION | FI_MULTI_RECV);
  receive->tagged = request.tagged;
  receive->tag = request.tag;
  receive->ignore = request.ignore;
  return receive;
}

void report_found(CompletionRoutes& routes, const Unexpected& message, const ReceiveRequest& request) noexcept {
  Completion found;
  found.context = request.context;
  found.flags = FI_RECV | FI_TAGGED | (message.has_cq_data ? FI_REMOTE_CQ_DATA : 0);
  found.len = message.len;
  found.data = message.cq_data;
  found.tag = message.tag;
  if (routes.receive_queue) routes.receive_queue->write(found);
}

void report_missing(CompletionRoutes& routes, const ReceiveRequest& request) noexcept {
  CompletionError missing;
  missing.context = request.context;
  missing.flags = FI_RECV | FI_TAGGED;
  missing.tag = request.tag;
  missing.err = FI_ENOMSG;
  missing.prov_errno = FI_ENOMSG;
  if (routes.receive_queue) routes.receive_queue->write_error(missing);
}

}  // namespace

ssize_t post_receive(ReceiveQueue& queue, TransferPools& pools, const ReceiveRequest& request) noexcept {
  const bool multi = (request.flags & FI_MULTI_RECV) != 0;
  if (multi && request.iov.size() != 1) return -FI_EINVAL;
  if (queue.room() == 0) return -FI_EAGAIN;
  Receive* receive = make_receive(pools, request);
  if (receive == nullptr) return -FI_EAGAIN;
  // A multi-receive buffer stays in the queue while it takes messages; delivery takes it out when it is full.
  const bool idle = queue.idle();
  if (idle || multi) queue.append(*receive);
  if (idle) return 0;
  bool wants_more = true;
  while (wants_more) {
    Unexpected* message = queue.find_unexpected(request.tagged, request.tag, request.ignore);
    if (message == nullptr) break;
    wants_more = message->stream->deliver(*message, *receive);
  }
  if (wants_more && !multi) queue.append(*receive);
  queue.wake_blocked();
  return 0;
}

ssize_t peek_or_claim(ReceiveQueue& queue, TransferPools& pools, CompletionRoutes& routes,
                      const ReceiveRequest& request) noexcept {
  const bool peek = (request.flags & FI_PEEK) != 0;
  const bool claim = (request.flags & FI_CLAIM) != 0;
  const bool discard = (request.flags & FI_DISCARD) != 0;
  if (claim && request.context == nullptr) return -FI_EINVAL;
  if (discard && peek && claim) return -FI_EINVAL;
  if (peek) {
    Unexpected* message = queue.find_unexpected(true, request.tag, request.ignore);
    if (message == nullptr) {
      report_missing(routes, request);
      return 0;
    }
    report_found(routes, *message, request);
    if (claim) queue.claim(*message, request.context);
    if (discard) message->stream->discard(*message);
    queue.wake_blocked();
    return 0;
  }
  Unexpected* message = queue.find_claimed(request.context);
  if (message == nullptr) return -FI_EINVAL;
  if (discard) {
    report_found(routes, *message, request);
    message->claimer = nullptr;
    message->stream->discard(*message);
  } else {
    Receive* receive = make_receive(pools, request);
    if (receive == nullptr) return -FI_EAGAIN;
    receive->flags &= ~FI_MULTI_RECV;
    message->claimer = nullptr;  // the context may claim another message from now on
    message->stream->deliver(*message, *receive);
  }
  queue.wake_blocked();
  return 0;
}

void cancel_receive(ReceiveQueue& queue, TransferPools& pools, CompletionRoutes& routes, Receive& receive,
                    int native) noexcept {
  queue.remove(receive);
  receive.retired = true;
  if (receive.arriving != 0) return;
  CompletionError cancelled;
  cancelled.context = receive.context;
  cancelled.flags = FI_RECV | (receive.tagged ? FI_TAGGED : FI_MSG) | (receive.flags & FI_MULTI_RECV);
  cancelled.tag = receive.tag;
  cancelled.err = FI_ECANCELED;
  cancelled.prov_errno = native;
  routes.receive_failed(cancelled);
  pools.receives.give_back(&receive);
}

}  // namespace weft::tcp
