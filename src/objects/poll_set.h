// SPDX-License-Identifier: BSD-2-Clause
// Poll sets, and fi_trywait over queues of every kind; fi_poll(3) governs both.
#pragma once

#include <rdma/fi_eq.h>

#include <algorithm>
#include <mutex>
#include <variant>
#include <vector>

#include "abi/ops.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/event_queue.h"
#include "objects/wait_set.h"

namespace weft {

// Slot trywait of fi_ops_fabric: 0 when it is safe to block on the native wait objects of all `fids`, -FI_EAGAIN when
// one has something to read, -FI_EINVAL for a handle that has no wait object or is not of this provider. CounterEngine
// and EventEngine differ from E where counters and event queues drive another engine than completion queues.
template <class E, class CounterEngine = E, class EventEngine = E>
int trywait(::fid** fids, int count) noexcept {
  if (count < 0 || (count > 0 && fids == nullptr)) return -FI_EINVAL;
  for (int i = 0; i < count; ++i) {
    int result = -FI_EINVAL;
    if (auto* queue = CompletionQueue<E>::from(fids[i])) {
      result = queue->trywait();
    } else if (auto* events = EventQueue<EventEngine>::from(fids[i])) {
      result = events->trywait();
    } else if (auto* counter = Counter<CounterEngine>::from(fids[i])) {
      result = counter->trywait();
    } else if (auto* set = object_if<WaitSet>(fids[i])) {
      result = set->trywait();
    }
    if (result != 0) return result;
  }
  return 0;
}

// Owner: its C handle. Thread-safe. Members are held by reference: their close answers -FI_EBUSY until they leave.
template <class E, class CounterEngine = E>
class PollSet final : public Object<fid_poll> {
 public:
  // `parent` is the domain.
  static Result<PollSet*> open(Ref<RefCounted> parent, const fi_poll_attr* attr) {
    if (attr != nullptr && attr->flags != 0) return failure(FI_EBADFLAGS);
    return new PollSet(std::move(parent));
  }

  // Slots of fi_ops.
  int close() {
    if (std::lock_guard lock(mutex_); !members_.empty()) return -FI_EBUSY;
    delete this;
    return 0;
  }

  // Slots of fi_ops_poll.
  int poll(void** context, int count) noexcept {
    std::lock_guard lock(mutex_);
    int found = 0;
    const void* driven = nullptr;  // an engine of several members is driven once
    for (const Member& member : members_) {
      if (found == count) break;
      std::visit(
          [&](const auto& queue) {
            if (std::exchange(driven, &queue->engine()) != &queue->engine()) queue->drive();
            if (!queue->ready()) return queue->mark_seen();
            context[found++] = queue->abi.fid.context;
            queue->mark_reported();
          },
          member);
    }
    return found;
  }
  int poll_add(::fid* fid, uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    std::lock_guard lock(mutex_);
    if (std::any_of(members_.begin(), members_.end(), is_of(fid))) return 0;
    if (auto* queue = CompletionQueue<E>::from(fid)) {
      members_.emplace_back(Ref(*queue));
    } else if (auto* counter = Counter<CounterEngine>::from(fid)) {
      members_.emplace_back(Ref(*counter));
    } else {
      return -FI_EINVAL;
    }
    return 0;
  }
  int poll_del(::fid* fid, uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    std::lock_guard lock(mutex_);
    return std::erase_if(members_, is_of(fid)) != 0 ? 0 : -FI_EINVAL;
  }

 private:
  using Member = std::variant<Ref<CompletionQueue<E>>, Ref<Counter<CounterEngine>>>;
  explicit PollSet(Ref<RefCounted> parent) noexcept : parent_(std::move(parent)) {
    identify<PollSet>(abi, FI_CLASS_POLL, nullptr);
  }
  static auto is_of(const ::fid* fid) noexcept {
    return [fid](const Member& member) {
      return std::visit([&](const auto& queue) { return &queue->abi.fid == fid; }, member);
    };
  }

  const Ref<RefCounted> parent_;
  std::mutex mutex_;  // guards members_
  std::vector<Member> members_;
};

}  // namespace weft
