// SPDX-License-Identifier: BSD-2-Clause
// Wait sets; fi_poll(3), fi_wait_open and fi_wait.
#include "objects/wait_set.h"

#include "abi/ops.h"

namespace weft {

WaitSet::WaitSet(Ref<RefCounted> parent) noexcept : parent_(std::move(parent)) {
  identify<WaitSet>(abi, FI_CLASS_WAIT, nullptr);
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

Status WaitMembership::open(WaitObject& wait, fi_wait_obj kind, fid_wait* set, const WaitMember& member) {
  if (kind != FI_WAIT_SET) return wait.open(kind);
  WaitSet* target = set != nullptr ? object_if<WaitSet>(&set->fid) : nullptr;
  if (target == nullptr) return Status(-FI_EINVAL);
  auto place = std::unique_ptr<Place>(new Place{Ref(*target), member.queue});
  target->add(member);
  wait.join(target->wait_object());
  place_ = std::move(place);
  return {};
}

}  // namespace weft
