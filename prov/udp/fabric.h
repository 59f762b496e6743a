// SPDX-License-Identifier: BSD-2-Clause
// A udp fabric: one IP network; fi_fabric(3). Owner: its C handle; close answers -FI_EBUSY while domains, event queues
// or wait sets exist. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include "objects/fabric_base.h"
#include "udp/parameters.h"

namespace weft::udp {

class Engine;

class Fabric final : public FabricBase<Fabric, Engine> {
 public:
  const Parameters parameters = Parameters::read();

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);

 private:
  friend FabricBase;
  using FabricBase::FabricBase;
  ~Fabric() = default;
};

}  // namespace weft::udp
