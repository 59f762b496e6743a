// SPDX-License-Identifier: BSD-2-Clause
// A verbs fabric: one subnet; fi_fabric(3). It owns what drives all connections in it. Owner: its C handle; close
// answers -FI_EBUSY while domains, passive endpoints, event queues or wait sets live. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include <memory>

#include "objects/fabric_base.h"
#include "objects/live_handles.h"
#include "verbs/cm_engine.h"
#include "verbs/parameters.h"

namespace weft::verbs {

class CompletionChannel;
class DomainProgress;

class Fabric final : public FabricBase<Fabric, CompletionChannel, DomainProgress, CmEngine> {
 public:
  static Result<Fabric*> make(const fi_fabric_attr& attr, void* context);

  CmEngine& engine() const noexcept { return *engine_; }

  const Parameters parameters;
  LiveHandles requests;
  LiveHandles passive_endpoints;

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);
  int passive_ep(fi_info* info, fid_pep** pep, void* context);

 private:
  friend FabricBase;
  Fabric(Parameters values, std::unique_ptr<CmEngine> engine, const fi_fabric_attr& attr, void* context) noexcept;
  ~Fabric() = default;

  const std::unique_ptr<CmEngine> engine_;
};

}  // namespace weft::verbs
