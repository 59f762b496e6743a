// SPDX-License-Identifier: BSD-2-Clause
// fi_ep_bind of a counter to an endpoint, which may be enabled already; fi_endpoint(3).
#pragma once

#include "objects/binding_check.h"
#include "verbs/device/logging.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/send_queue.h"

namespace weft::verbs {

// Any thread may be handling completions of an enabled endpoint, so a late binding takes the locks of both directions,
// and the queues follow it. With the engine's mutex held.
template <class Receives>
Status bind_counter(CompletionRoutes& routes, DomainServices& domain, Counter& counter, uint64_t flags, bool enabled,
                    SendQueue& sends, Receives& receives) noexcept {
  constexpr uint64_t kTransmits = FI_SEND | FI_READ | FI_WRITE;
  if (!enabled) return bind_route(provider(), routes, counter, flags, domain.progress(), false);
  const bool same_domain = &counter.engine() == &domain.progress();
  Status status = check_binding(provider(), {counter.abi.fid, same_domain, enabled});
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
