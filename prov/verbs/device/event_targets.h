// SPDX-License-Identifier: BSD-2-Clause
// The objects that events of our queues name (qp_context, cq_context). librdmacm has one context of a device for the
// whole process, so events of queues that the program itself has there come along; what those name is not ours.
// ibv_get_async_event(3).
#pragma once

#include "base/status.h"

namespace weft::verbs {

// A CmHandler or an OverrunHandler, from the creation of its first queue until its end. Thread-safe.
class EventTargets {
 public:
  // -FI_ENOMEM. Idempotent, as the next.
  static Status add(const void* target) noexcept;
  static void remove(const void* target) noexcept;
  // Stays true as long as the event is not acknowledged: destroying the queue waits for that.
  static bool contains(const void* target) noexcept;
};

}  // namespace weft::verbs
