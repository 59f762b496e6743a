// SPDX-License-Identifier: BSD-2-Clause
// The order in which fi_ep_bind finds errors, the same for every endpoint and every object; fi_endpoint(3).
#pragma once

#include <rdma/fi_errno.h>

#include <cstdint>

#include "base/status.h"

namespace weft {

// A call of fi_ep_bind for a known kind of object.
struct Binding {
  bool same_domain;         // the object belongs to the endpoint's domain
  bool enabled;             // the endpoint is
  std::uint64_t flags = 0;  // those that no binding of this kind has
  bool second = false;      // the endpoint has such an object already
};

constexpr Status check_binding(const Binding& binding) noexcept {
  if (!binding.same_domain) return Status(-FI_EDOMAIN);
  if (binding.enabled) return Status(-FI_EOPBADSTATE);
  if (binding.flags != 0) return Status(-FI_EBADFLAGS);
  return Status(binding.second ? -FI_EINVAL : 0);
}

// Binds a completion queue or a counter to `routes`, whose bind() checks the flags.
template <class Routes, class Queue, class Engine>
Status bind_route(Routes& routes, Queue& queue, std::uint64_t flags, const Engine& engine, bool enabled) noexcept {
  const Status status = check_binding({.same_domain = &queue.engine() == &engine, .enabled = enabled});
  return status.ok() ? routes.bind(queue, flags) : status;
}

}  // namespace weft
