// SPDX-License-Identifier: BSD-2-Clause
// A udp fabric; see fabric.h.
#include "udp/fabric.h"

#include <memory>

#include "abi/fabric_ops.h"
#include "abi/fid_ops.h"
#include "objects/poll_set.h"
#include "objects/wait_set.h"
#include "udp/domain.h"
#include "udp/queues.h"

namespace weft::udp {

int Fabric::open(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  if (attr == nullptr || fabric == nullptr || attr->name == nullptr) return -FI_EINVAL;
  *fabric = &(new Fabric(attr->api_version, context))->abi;
  return 0;
}

Fabric::Fabric(uint32_t api_version, void* context) noexcept {
  static constexpr fi_ops_fabric kOps = make_fabric_ops<Fabric>();
  abi.fid = {FI_CLASS_FABRIC, context, const_cast<fi_ops*>(fid_ops())};
  abi.ops = const_cast<fi_ops_fabric*>(&kOps);
  abi.api_version = api_version;
}

const fi_ops* Fabric::fid_ops() noexcept {
  static constexpr fi_ops kOps = make_fid_ops<Fabric>();
  return &kOps;
}

int Fabric::close() {
  if (in_use()) return -FI_EBUSY;
  delete this;
  return 0;
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Fabric::domain2(fi_info* info, fid_domain** domain, uint64_t flags, void* context) {
  return flags == 0 ? Domain::open(*this, info, domain, context) : -FI_EBADFLAGS;
}

int Fabric::eq_open(fi_eq_attr* attr, fid_eq** eq, void* context) {
  if (eq == nullptr) return -FI_EINVAL;
  auto queue = EventQueue::open(Ref<RefCounted>(*this), attr, abi.api_version, context);
  if (!queue) return queue.error().code();
  *eq = &(*queue)->abi;
  return 0;
}

int Fabric::wait_open(fi_wait_attr* attr, fid_wait** set) {
  if (set == nullptr) return -FI_EINVAL;
  auto opened = WaitSet::open(Ref<RefCounted>(*this), attr);
  if (!opened) return opened.error().code();
  *set = &(*opened)->abi;
  return 0;
}

int Fabric::trywait(::fid** fids, int count) {
  return weft::trywait<Engine>(fids, count);
}

}  // namespace weft::udp
