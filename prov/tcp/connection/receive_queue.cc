// SPDX-License-Identifier: BSD-2-Clause
// Posted receives and unexpected messages; see receive_queue.h.
#include "tcp/connection/receive_queue.h"

#include "tcp/connection/endpoint_receiver.h"

namespace weft::tcp {

ssize_t ReceiveQueue::post(const messages::ReceiveRequest& request, CompletionRoutes& routes) noexcept {
  const bool searches = (request.flags & (FI_PEEK | FI_CLAIM)) != 0;
  const ssize_t result = searches ? peek_or_claim(request, routes) : ReceiveSide::post(request);
  if (result != 0) return result;
  resume_blocked();
  return 0;
}

void ReceiveQueue::on_removed(const Unexpected& message) noexcept {
  kept_bytes_ -= message.kept;
  resume_blocked();
}

void ReceiveQueue::resume_blocked() noexcept {
  while (!blocked_.empty()) blocked_.pop_front().resume();
}

bool ReceiveQueue::may_keep(bool tagged, std::size_t len) const noexcept {
  const std::size_t limit = tagged ? kMaxUnexpectedBytes : kMaxUnexpectedUntagged;
  // The peer chooses the length: a sum could overflow.
  const std::size_t overhead = kept_bytes_ + sizeof(Unexpected);
  return overhead <= limit && len <= limit - overhead;
}

bool ReceiveQueue::keep(Unexpected& message, EndpointReceiver& receiver, CompletionRoutes& routes) noexcept {
  message.kept = message.envelope.len + sizeof message;
  if (!ReceiveSide::keep(message, receiver, routes)) return false;
  kept_bytes_ += message.kept;
  return true;
}

void ReceiveQueue::block(EndpointReceiver& receiver) noexcept {
  if (!receiver.ListHook<BlockedTag>::linked()) blocked_.push_back(receiver);
}

}  // namespace weft::tcp
