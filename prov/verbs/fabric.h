// SPDX-License-Identifier: BSD-2-Clause
// A verbs fabric: one subnet; fi_fabric(3). Owner: its C handle; close returns -FI_EBUSY while domains, passive
// endpoints, event queues or wait sets live. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include <memory>

#include "objects/fabric_base.h"
#include "verbs/cm/fabric_services.h"
#include "verbs/transfer/queues.h"

namespace weft::verbs {

class Fabric final : public FabricBase<Fabric, CompletionChannel, DomainProgress, CmEngine, FabricServices> {
 public:
  static Result<Fabric*> make(const fi_fabric_attr& attr, void* context);

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);
  int passive_ep(fi_info* info, fid_pep** pep, void* context);

 private:
  friend FabricBase;
  Fabric(Parameters values, std::unique_ptr<CmEngine> engine, const fi_fabric_attr& attr, void* context) noexcept
      : FabricBase(attr, context, std::move(values), std::move(engine)) {}
  ~Fabric() = default;
};

}  // namespace weft::verbs
