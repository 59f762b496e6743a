// SPDX-License-Identifier: BSD-2-Clause
// A tcp fabric: one IP network; fi_fabric(3). Owner: its C handle; close answers -FI_EBUSY while domains, passive
// endpoints, event queues or wait sets live. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include "objects/fabric_base.h"
#include "objects/live_handles.h"
#include "tcp/parameters.h"

namespace weft::tcp {

class Engine;

class Fabric final : public FabricBase<Fabric, Engine> {
 public:
  const Parameters parameters = Parameters::read();
  LiveHandles requests;
  LiveHandles passive_endpoints;

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);
  int passive_ep(fi_info* info, fid_pep** pep, void* context);

 private:
  friend FabricBase;
  using FabricBase::FabricBase;
  ~Fabric() = default;
};

}  // namespace weft::tcp
