// SPDX-License-Identifier: BSD-2-Clause
// The parts that fabrics of all providers have in common: creation, event queues, wait sets; fi_fabric(3). A provider's
// fabric derives from it and adds `domain`, `passive_ep` and the like.
//
// Owner: its C handle; close answers -FI_EBUSY while domains, passive endpoints, event queues or wait sets live.
// Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include <utility>

#include "abi/ops.h"
#include "base/ref.h"
#include "objects/event_queue.h"
#include "objects/poll_set.h"
#include "objects/wait_set.h"

namespace weft {

// T: the provider's fabric, which may have a make() of its own. Its completion queues drive an E, its counters a
// CounterEngine, its event queues an EventEngine. Services: a RefCounted with the parts that the fabric's children
// need, so that they do not depend on T; built from the arguments after `context`.
template <class T, class E, class CounterEngine = E, class EventEngine = E, class Services = RefCounted>
class FabricBase : public Object<fid_fabric>, public Services {
 public:
  // fi_fabric. -FI_EINVAL without attributes or name.
  static int open(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
    if (attr == nullptr || fabric == nullptr || attr->name == nullptr) return -FI_EINVAL;
    return release_to(T::make(*attr, context), fabric);
  }
  static Result<T*> make(const fi_fabric_attr& attr, void* context) { return new T(attr, context); }

  // Slots of fi_ops.
  int close() {
    if (this->in_use()) return -FI_EBUSY;
    delete static_cast<T*>(this);
    return 0;
  }

  // Slots of fi_ops_fabric.
  int domain2(fi_info* info, fid_domain** domain, uint64_t flags, void* context) {
    return flags == 0 ? static_cast<T*>(this)->domain(info, domain, context) : -FI_EBADFLAGS;
  }
  int eq_open(fi_eq_attr* attr, fid_eq** eq, void* context) {
    if (eq == nullptr) return -FI_EINVAL;
    return release_to(EventQueue<EventEngine>::open(Ref<RefCounted>(*this), attr, abi.api_version, context), eq);
  }
  int wait_open(fi_wait_attr* attr, fid_wait** set) {
    if (set == nullptr) return -FI_EINVAL;
    return release_to(WaitSet::open(Ref<RefCounted>(*this), attr), set);
  }
  int trywait(::fid** fids, int count) { return weft::trywait<E, CounterEngine, EventEngine>(fids, count); }

 protected:
  template <class... Args>
  FabricBase(const fi_fabric_attr& attr, void* context, Args&&... services) noexcept
      : Services(std::forward<Args>(services)...) {
    identify<T>(abi, FI_CLASS_FABRIC, context);
    abi.api_version = attr.api_version;
  }
  ~FabricBase() = default;
};

}  // namespace weft
