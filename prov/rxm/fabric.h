// SPDX-License-Identifier: BSD-2-Clause
// A fabric of ofi_rxm: one fabric of the lower provider; fi_fabric(3). Owner: its C handle; close answers -FI_EBUSY
// while domains, event queues or wait sets live. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include "objects/fabric_base.h"
#include "rxm/lower.h"
#include "rxm/parameters.h"

namespace weft::rxm {

class Engine;

class Fabric final : public FabricBase<Fabric, Engine> {
 public:
  static Result<Fabric*> make(const fi_fabric_attr& attr, void* context);

  fid_fabric* lower() const noexcept { return lower_.get(); }

  const Parameters parameters = Parameters::read();

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);

 private:
  friend FabricBase;
  Fabric(const fi_fabric_attr& attr, Lower<fid_fabric> lower, void* context) noexcept
      : FabricBase(attr, context), lower_(std::move(lower)) {}
  ~Fabric() = default;

  const Lower<fid_fabric> lower_;
};

}  // namespace weft::rxm
