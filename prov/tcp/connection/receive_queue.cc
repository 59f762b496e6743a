// SPDX-License-Identifier: BSD-2-Clause
// Posted receives and unexpected messages; see receive_queue.h.
#include "tcp/connection/receive_queue.h"

#include "tcp/connection/endpoint_receiver.h"

namespace weft::tcp {

ssize_t ReceiveQueue::post(const messages::ReceiveRequest& request, CompletionRoutes& routes) noexcept {
  receives_tagged_ |= request.tagged;
  const bool searches = (request.flags & (FI_PEEK | FI_CLAIM)) != 0;
  const ssize_t result = searches ? peek_or_claim(request, routes) : ReceiveSide::post(request);
  if (result != 0) return result;
  resume_blocked();
  return 0;
}

void ReceiveQueue::resume_blocked() noexcept {
  while (!blocked_.empty()) blocked_.pop_front().resume();
}

void ReceiveQueue::block(EndpointReceiver& receiver) noexcept {
  if (!receiver.ListHook<BlockedTag>::linked()) blocked_.push_back(receiver);
}

}  // namespace weft::tcp
