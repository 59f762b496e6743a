// SPDX-License-Identifier: BSD-2-Clause
// Wait sets; fi_poll(3), fi_wait_open and fi_wait.
#include "objects/wait_set.h"

#include <algorithm>

#include "abi/ops.h"

namespace weft {

WaitSet::WaitSet(Ref<RefCounted> parent) noexcept : parent_(std::move(parent)) {
  abi.fid = {FI_CLASS_WAIT, nullptr, ops_of<WaitSet>};
  abi.ops = ops_of<WaitSet>;
}

Result<WaitSet*> WaitSet::open(Ref<RefCounted> parent, const fi_wait_attr* attr) {
  if (attr == nullptr) return failure(FI_EINVAL);
  if (attr->flags != 0) return failure(FI_EBADFLAGS);
  if (attr->wait_obj == FI_WAIT_NONE) return failure(FI_EINVAL);
  std::unique_ptr<WaitSet> set(new WaitSet(std::move(parent)));
  if (Status status = set->wait_.open(attr->wait_obj); !status.ok()) return failure(status);
  if (Status status = set->wait_.start_driver(*set); !status.ok()) return failure(status);
  return set.release();
}

void WaitSet::add(const WaitMember& member) {
  std::lock_guard lock(mutex_);
  members_.push_back(member);
}

void WaitSet::remove(void* queue) noexcept {
  std::lock_guard lock(mutex_);
  std::erase_if(members_, [&](const WaitMember& member) { return member.queue == queue; });
}

int WaitSet::close() {
  if (in_use()) return -FI_EBUSY;
  wait_.stop_driver();
  delete this;
  return 0;
}

void WaitSet::drive() noexcept {
  std::lock_guard lock(mutex_);
  for (const WaitMember& member : members_) member.drive(member.queue);
}

bool WaitSet::must_not_sleep() noexcept {
  std::lock_guard lock(mutex_);
  return std::any_of(members_.begin(), members_.end(),
                     [](const WaitMember& member) { return member.must_not_sleep(member.queue); });
}

bool WaitSet::prepare_wait() noexcept {
  std::lock_guard lock(mutex_);
  bool may_sleep = true;
  for (const WaitMember& member : members_) may_sleep &= member.prepare_wait(member.queue);
  return may_sleep;
}

int WaitSet::wait(int timeout_ms) noexcept {
  const bool ready = wait_.wait(Deadline::in_ms(timeout_ms), *this, [this]() noexcept { return must_not_sleep(); });
  return ready ? 0 : -FI_ETIMEDOUT;
}

Status WaitMembership::open(WaitObject& wait, fi_wait_obj kind, fid_wait* set, const WaitMember& member) {
  if (kind != FI_WAIT_SET) return wait.open(kind);
  WaitSet* target = set != nullptr ? object_if<WaitSet>(&set->fid) : nullptr;
  if (target == nullptr) return Status(-FI_EINVAL);
  target->add(member);
  wait.join(target->wait_object());
  queue_ = member.queue;
  set_ = Ref(*target);
  return {};
}

}  // namespace weft
