// SPDX-License-Identifier: BSD-2-Clause
// Wait sets (FI_WAIT_SET): many queues, one wait object; fi_poll(3), fi_wait_open and fi_wait. Deprecated by the 2.x
// API but in use by 1.x programs.
#pragma once

#include <rdma/fi_eq.h>

#include <memory>
#include <mutex>
#include <vector>

#include "abi/bridge.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/wait_object.h"

namespace weft {

// A wait set's access to a queue of any engine.
struct WaitMember {
  void* queue;
  void (*drive)(void* queue) noexcept;
  bool (*must_not_sleep)(void* queue) noexcept;  // something can be read
  bool (*prepare_wait)(void* queue) noexcept;
};

template <class Queue>
WaitMember wait_member(Queue& queue) noexcept {
  return {&queue, [](void* q) noexcept { static_cast<Queue*>(q)->drive(); },
          [](void* q) noexcept { return static_cast<Queue*>(q)->must_not_sleep(); },
          [](void* q) noexcept { return static_cast<Queue*>(q)->prepare_wait(); }};
}

// Owner: its C handle; outlives its members (close answers -FI_EBUSY). Thread-safe.
class WaitSet : public Object<fid_wait>, public RefCounted {
 public:
  // `parent` is the fabric. -FI_EINVAL for a wait object that a set cannot have.
  static Result<WaitSet*> open(Ref<RefCounted> parent, const fi_wait_attr* attr);

  WaitObject& wait_object() noexcept { return wait_; }
  void add(const WaitMember& member) {
    std::lock_guard lock(mutex_);
    members_.push_back(member);
  }
  void remove(void* queue) noexcept {
    std::lock_guard lock(mutex_);
    std::erase_if(members_, [&](const WaitMember& member) { return member.queue == queue; });
  }

  // All members as one, for WaitObject::wait().
  void drive() noexcept {
    std::lock_guard lock(mutex_);
    for (const WaitMember& member : members_) member.drive(member.queue);
  }
  bool must_not_sleep() noexcept {
    std::lock_guard lock(mutex_);
    return std::any_of(members_.begin(), members_.end(),
                       [](const WaitMember& member) { return member.must_not_sleep(member.queue); });
  }
  bool prepare_wait() noexcept {
    std::lock_guard lock(mutex_);
    bool may_sleep = true;
    for (const WaitMember& member : members_) may_sleep &= member.prepare_wait(member.queue);
    return may_sleep;
  }
  int trywait() noexcept { return wait_.trywait(*this); }

  // Slots.
  int close() {
    if (in_use()) return -FI_EBUSY;
    wait_.stop_driver();
    delete this;
    return 0;
  }
  int control(int command, void* arg) noexcept { return wait_.control(command, arg); }
  int wait(int timeout_ms) {
    const auto ready = [this]() noexcept { return must_not_sleep(); };
    return wait_.wait(Deadline::in_ms(timeout_ms), *this, ready).code();
  }

 private:
  explicit WaitSet(Ref<RefCounted> parent) noexcept;

  Ref<RefCounted> parent_;
  WaitObject wait_;
  std::mutex mutex_;  // guards members_; held while calling them, so that no member is destroyed meanwhile
  std::vector<WaitMember> members_;
};

// Applies the wait fields of a queue's attributes: its own wait object, or membership of a set until destruction. The
// queue declares it after its WaitObject.
class WaitMembership {
 public:
  WaitMembership() noexcept = default;
  WaitMembership(const WaitMembership&) = delete;
  WaitMembership& operator=(const WaitMembership&) = delete;
  ~WaitMembership() {
    if (place_ != nullptr) place_->set->remove(place_->queue);
  }
  Status open(WaitObject& wait, fi_wait_obj kind, fid_wait* set, const WaitMember& member);

  // fi_cq_sread, fi_eq_sread, fi_cntr_wait. `wait` is the queue's object. A member sleeps on the set's, and drives all
  // members as its other sleepers do, because one of them polls the descriptors for all. FI_WAIT_NONE forbids these
  // calls, but programs make them, and libfabric serves some: they yield the processor as with FI_WAIT_YIELD.
  template <class Queue, class Ready>
  Status wait(WaitObject& wait, Deadline deadline, Queue& queue, Ready ready) {
    if (place_ == nullptr) return wait.wait(deadline, queue, ready);
    return place_->set->wait_object().wait(deadline, *place_->set, ready);
  }
  // fi_cq_signal.
  void interrupt(WaitObject& wait) noexcept { (place_ == nullptr ? wait : place_->set->wait_object()).interrupt(); }

 private:
  struct Place {
    Ref<WaitSet> set;
    void* queue;
  };
  std::unique_ptr<Place> place_;  // null: no member
};

}  // namespace weft
