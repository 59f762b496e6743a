// SPDX-License-Identifier: BSD-2-Clause
// The objects that events of our queues name; see event_targets.h.
#include "verbs/device/event_targets.h"

#include <rdma/fi_errno.h>

#include <mutex>
#include <new>
#include <unordered_set>

#include "base/kept.h"

namespace weft::verbs {
namespace {

struct Targets {
  std::mutex mutex;
  std::unordered_set<const void*> known;
};
Targets& targets() noexcept {
  static Kept<Targets> all;
  return all.object;
}

}  // namespace

Status EventTargets::add(const void* target) noexcept try {
  std::lock_guard lock(targets().mutex);
  targets().known.insert(target);
  return {};
} catch (const std::bad_alloc&) {
  return Status(-FI_ENOMEM);
}

void EventTargets::remove(const void* target) noexcept {
  std::lock_guard lock(targets().mutex);
  targets().known.erase(target);
}

bool EventTargets::contains(const void* target) noexcept {
  std::lock_guard lock(targets().mutex);
  return targets().known.contains(target);
}

}  // namespace weft::verbs
