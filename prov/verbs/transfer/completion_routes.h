// SPDX-License-Identifier: BSD-2-Clause
// Where an endpoint's completions go: the channels, queues and counters bound to it (fi_endpoint(3), fi_ep_bind); and
// the endpoint itself, which is notified when its queue pair breaks.
#pragma once

#include "objects/binding_check.h"
#include "objects/completion_routes.h"
#include "verbs/device/logging.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/queues.h"

namespace weft::verbs {

// The part of an endpoint that its queues use.
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
  bool refuses_after_end = false;  // FI_OPT_WEFT_REFUSE_AFTER_END
};

// fi_ep_bind of a counter. Any thread may be handling completions of an enabled endpoint, so a late binding takes the
// locks of both directions, and the queues follow it. With the engine's mutex held.
template <class Sends, class Receives>
Status bind_counter(CompletionRoutes& routes, DomainServices& domain, Counter& counter, uint64_t flags, bool enabled,
                    Sends& sends, Receives& receives) noexcept {
  constexpr uint64_t kTransmits = FI_SEND | FI_READ | FI_WRITE;
  if (!enabled) return bind_route(provider(), routes, counter, flags, domain.progress(), false);
  const bool same_domain = &counter.engine() == &domain.progress();
  Status status = check_binding(provider(), {counter.abi.fid, same_domain, enabled, 0, routes.counts(flags)});
  if (!status.ok()) return status;
  {
    LightGuard posting(sends.lock());
    LightGuard completing(routes.transmit_channel->lock());
    status = routes.bind(counter, flags, kTransmits);
    sends.follow_bindings();
  }
  LightGuard completing(routes.receive_channel->lock());
  LightGuard posting(receives.lock());
  if (status.ok()) status = routes.bind(counter, flags, ~kTransmits);
  receives.follow_bindings();
  return status;
}

}  // namespace weft::verbs
