// SPDX-License-Identifier: BSD-2-Clause
// Posting receives, the same for an endpoint and for a shared receive context: fi_msg(3), fi_tagged(3).
#pragma once

#include <sys/uio.h>

#include <span>

#include "tcp/engine.h"
#include "tcp/stream.h"

namespace weft::tcp {

struct ReceiveRequest {
  std::span<const iovec> iov;
  void* context = nullptr;
  uint64_t flags = 0;  // FI_COMPLETION, FI_MULTI_RECV; tagged: FI_PEEK, FI_CLAIM, FI_DISCARD
  bool tagged = false;
  uint64_t tag = 0;
  uint64_t ignore = 0;
};

// 0; -FI_EAGAIN when the queue is full; -FI_EINVAL. With the engine's mutex held.
ssize_t post_receive(ReceiveQueue& queue, TransferPools& pools, const ReceiveRequest& request) noexcept;

// fi_tagged(3), FI_PEEK and FI_CLAIM: finds, claims, takes or discards an unexpected message. The outcome is a
// completion in `routes`: its description, or FI_ENOMSG. With the engine's mutex held.
ssize_t peek_or_claim(ReceiveQueue& queue, TransferPools& pools, CompletionRoutes& routes,
                      const ReceiveRequest& request) noexcept;

// Takes a posted receive back; its completion is an error entry. A multi-receive buffer that a message is arriving in
// is completed by that message. With the engine's mutex held.
void cancel_receive(ReceiveQueue& queue, TransferPools& pools, CompletionRoutes& routes, Receive& receive,
                    int native) noexcept;

}  // namespace weft::tcp
