// SPDX-License-Identifier: BSD-2-Clause
// A verbs fabric; see fabric.h.
#include "verbs/fabric.h"

#include <rdma/providers/fi_log.h>

#include "verbs/domain.h"
#include "verbs/passive_endpoint.h"
#include "verbs/provider.h"
#include "verbs/queues.h"

namespace weft::verbs {

Result<Fabric*> Fabric::make(const fi_fabric_attr& attr, void* context) {
  Parameters parameters = Parameters::read();
  auto engine = CmEngine::open(parameters.max_connecting);
  if (!engine) {
    FI_WARN(&provider(), FI_LOG_FABRIC, "cannot open the RDMA connection manager: %s\n",
            fi_strerror(engine.error().error()));
    return failure(engine.error());
  }
  return new Fabric(std::move(parameters), std::move(*engine), attr, context);
}

Fabric::Fabric(Parameters values, std::unique_ptr<CmEngine> engine, const fi_fabric_attr& attr, void* context) noexcept
    : FabricBase(attr, context), parameters(std::move(values)), engine_(std::move(engine)) {}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  // A domain that progresses by itself makes connections by itself.
  if (info != nullptr && info->domain_attr != nullptr && info->domain_attr->control_progress == FI_PROGRESS_AUTO)
    if (Status status = engine_->start_service_thread(); !status.ok()) return status.code();
  return Domain::open(*this, info, domain, context);
}

int Fabric::passive_ep(fi_info* info, fid_pep** pep, void* context) {
  return PassiveEndpoint::open(*this, info, pep, context);
}

}  // namespace weft::verbs
