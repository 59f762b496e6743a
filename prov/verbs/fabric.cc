// SPDX-License-Identifier: BSD-2-Clause
// A verbs fabric; see fabric.h.
#include "verbs/fabric.h"

#include <rdma/providers/fi_log.h>

#include <memory>

#include "abi/fabric_ops.h"
#include "abi/fid_ops.h"
#include "objects/wait_set.h"
#include "verbs/domain.h"
#include "verbs/passive_endpoint.h"
#include "verbs/provider.h"
#include "verbs/queues.h"

namespace weft::verbs {

int Fabric::open(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  if (attr == nullptr || fabric == nullptr || attr->name == nullptr) return -FI_EINVAL;
  Parameters parameters = Parameters::read();
  auto engine = CmEngine::open(parameters.max_connecting);
  if (!engine) {
    FI_WARN(&provider(), FI_LOG_FABRIC, "cannot open the RDMA connection manager: %s\n",
            fi_strerror(engine.error().error()));
    return engine.error().code();
  }
  *fabric = &(new Fabric(std::move(parameters), std::move(*engine), attr->api_version, context))->abi;
  return 0;
}

Fabric::Fabric(Parameters values, std::unique_ptr<CmEngine> engine, uint32_t api_version, void* context) noexcept
    : parameters(std::move(values)), engine_(std::move(engine)) {
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
  // A domain that progresses by itself makes connections by itself.
  if (info != nullptr && info->domain_attr != nullptr && info->domain_attr->control_progress == FI_PROGRESS_AUTO)
    if (Status status = engine_->start_service_thread(); !status.ok()) return status.code();
  return Domain::open(*this, info, domain, context);
}

int Fabric::domain2(fi_info* info, fid_domain** opened, uint64_t flags, void* context) {
  return flags == 0 ? domain(info, opened, context) : -FI_EBADFLAGS;
}

int Fabric::passive_ep(fi_info* info, fid_pep** pep, void* context) {
  return PassiveEndpoint::open(*this, info, pep, context);
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
  return weft::trywait<CompletionChannel, DomainProgress, CmEngine>(fids, count);
}

}  // namespace weft::verbs
