// SPDX-License-Identifier: BSD-2-Clause
// Where an endpoint's completions go: the channels, queues and counters bound to it (fi_endpoint(3), fi_ep_bind); and
// the endpoint itself, which is notified when its queue pair breaks.
#pragma once

#include "objects/completion_routes.h"
#include "verbs/transfer/queues.h"

namespace weft::verbs {

class DomainServices;

// An endpoint, as its queues see it.
class TransferOwner {
 public:
  // A work completion reported that the queue pair broke (ibv_wc_status; not called for flushed work requests). Called
  // with a channel's lock held, from any thread that reads a queue: notes the failure and wakes the engine.
  virtual void on_transfer_failed(int wc_status) noexcept = 0;

 protected:
  ~TransferOwner() = default;
};

// A null queue: completions are only counted.
struct CompletionRoutes : weft::CompletionRoutes {
  explicit CompletionRoutes(TransferOwner& endpoint) noexcept : owner(endpoint) {}

  // fi_ep_bind. -FI_EDOMAIN for objects of another domain; see also weft::CompletionRoutes.
  Status bind_queue(const DomainServices& domain, CompletionQueue& queue, uint64_t flags, bool enabled) noexcept;
  // A direction without a queue gets the domain's channel for those.
  Status open_channels(DomainServices& domain) noexcept;
  void poll_all() noexcept;

  TransferOwner& owner;
  CompletionChannel* transmit_channel = nullptr;
  CompletionChannel* receive_channel = nullptr;
};

}  // namespace weft::verbs
