// SPDX-License-Identifier: BSD-2-Clause
// Bindings of endpoints: the order in which fi_ep_bind finds errors, the same for every endpoint and every object, and
// the objects that may be bound late; fi_endpoint(3).
#pragma once

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <cstdint>

#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/event_queue.h"

namespace weft {

// Whether an enabled endpoint may be bound to an object of this class. libfabric allows it, and runtimes do it.
constexpr bool may_be_late(std::size_t fclass) noexcept {
  return fclass == FI_CLASS_CNTR || fclass == FI_CLASS_STX_CTX;
}

// Flags without meaning for such an object, which programs pass and libfabric ignores: the direction of a shared
// context, which has only one.
constexpr std::uint64_t ignored_flags(std::size_t fclass) noexcept {
  return fclass == FI_CLASS_SRX_CTX || fclass == FI_CLASS_STX_CTX ? FI_TRANSMIT | FI_RECV : 0;
}

// A call of fi_ep_bind for a known kind of object.
struct Binding {
  const ::fid& object;
  bool same_domain;         // the object belongs to the endpoint's domain
  bool enabled;             // the endpoint is
  std::uint64_t flags = 0;  // flags to check; ignored_flags() are allowed
  bool second = false;      // the endpoint has such an object already
};

inline Status check_binding(const fi_provider& provider, const Binding& binding) noexcept {
  const auto refuse = [&](int error, const char* why) {
    FI_WARN(&provider, FI_LOG_EP_CTRL, "fi_ep_bind refused: %s\n", why);
    return Status(-error);
  };
  if (!binding.same_domain) return refuse(FI_EDOMAIN, "the object belongs to another domain");
  if (binding.enabled && !may_be_late(binding.object.fclass))
    return refuse(FI_EOPBADSTATE, "the endpoint is enabled, and takes only counters and shared transmit contexts now");
  if ((binding.flags & ~ignored_flags(binding.object.fclass)) != 0)
    return refuse(FI_EBADFLAGS, "the object takes no such flags");
  return binding.second ? refuse(FI_EINVAL, "the endpoint has such an object already") : Status();
}

// check_binding() for an object that an endpoint has at most one of.
template <class Object, class Domain>
Status check_binding(const fi_provider& provider, const Object& object, const Domain& domain, bool enabled,
                     std::uint64_t flags, bool second) noexcept {
  return check_binding(provider, {object.abi.fid, &object.domain() == &domain, enabled, flags, second});
}

// Binds a completion queue or a counter to `routes`, whose bind() checks the flags.
template <class Routes, class Queue, class Engine>
Status bind_route(const fi_provider& provider, Routes& routes, Queue& queue, std::uint64_t flags, const Engine& engine,
                  bool enabled) noexcept {
  if (Status status = check_binding(provider, {queue.abi.fid, &queue.engine() == &engine, enabled}); !status.ok())
    return status;
  const Status status = routes.bind(queue, flags);
  if (!status.ok())
    FI_WARN(&provider, FI_LOG_EP_CTRL, "fi_ep_bind refused: %s\n",
            status.error() == FI_EBADFLAGS ? "the object takes no such flags"
                                           : "the flags name no direction, or one that has such an object already");
  return status;
}

// fi_ep_bind of an event queue, to which `engine` and holders of its mutex will post. -FI_EBADFLAGS; -FI_EINVAL when
// another one is bound already.
template <class Engine>
Status bind_events(EventQueue<Engine>& queue, uint64_t flags, Engine& engine, Ref<EventQueue<Engine>>& bound) {
  if (flags != 0) return Status(-FI_EBADFLAGS);
  if (bound) return Status(bound.get() == &queue ? 0 : -FI_EINVAL);
  if (Status status = queue.attach(engine); !status.ok()) return status;
  Lock lock(engine.mutex());
  bound = Ref<EventQueue<Engine>>(queue);
  return Status();
}

// fi_domain_bind(3): the domain's event queue serves an endpoint that is bound to none. Without the engine's mutex.
template <class Endpoint, class Domain, class Queue>
int bind_default_events(Endpoint& endpoint, Domain& domain, const Ref<Queue>& bound) {
  Queue* const queue = bound ? nullptr : domain.default_events();
  return queue != nullptr ? endpoint.bind(&queue->abi.fid, 0) : 0;
}

// Releases the queue when the endpoint closes: no unread event names the endpoint any more. Without the engine's mutex.
template <class Engine>
void release_events(const Ref<EventQueue<Engine>>& bound, Engine& engine, ::fid& endpoint) noexcept {
  if (!bound) return;
  bound->detach(engine);
  bound->remove(&endpoint);
}

}  // namespace weft
