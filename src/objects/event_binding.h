// SPDX-License-Identifier: BSD-2-Clause
// The event queue of an endpoint; fi_endpoint(3), fi_ep_bind.
#pragma once

#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/event_queue.h"

namespace weft {

// fi_ep_bind of an event queue, to which `engine` and holders of its mutex will post. -FI_EBADFLAGS; -FI_EINVAL when
// one is bound already.
template <class Engine>
Status bind_events(EventQueue<Engine>& queue, uint64_t flags, Engine& engine, Ref<EventQueue<Engine>>& bound) {
  if (flags != 0) return Status(-FI_EBADFLAGS);
  if (bound) return Status(-FI_EINVAL);
  if (Status status = queue.attach(engine); !status.ok()) return status;
  Lock lock(engine.mutex());
  bound = Ref<EventQueue<Engine>>(queue);
  return Status();
}

// Releases the queue when the endpoint closes: no unread event names the endpoint any more. Without the engine's mutex.
template <class Engine>
void release_events(const Ref<EventQueue<Engine>>& bound, Engine& engine, ::fid& endpoint) noexcept {
  if (!bound) return;
  bound->detach(engine);
  bound->remove(&endpoint);
}

}  // namespace weft
