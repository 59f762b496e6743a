// SPDX-License-Identifier: BSD-2-Clause
// A fabric of ofi_rxm; see fabric.h.
#include "rxm/fabric.h"

#include <utility>

#include "rxm/queues.h"

namespace weft::rxm {

Result<Fabric*> Fabric::make(const fi_fabric_attr& attr, void* context) {
  if (attr.prov_name == nullptr) return failure(FI_EINVAL);
  std::string core = lower_name(attr.prov_name);
  fi_fabric_attr below = attr;
  below.prov_name = core.data();
  below.api_version = lower_version(attr.api_version);
  fid_fabric* opened = nullptr;
  if (const int error = fi_fabric(&below, &opened, nullptr); error != 0) return failure(Status(error));
  return new Fabric(attr, Lower<fid_fabric>(opened), context);
}

Fabric::Fabric(const fi_fabric_attr& attr, Lower<fid_fabric> lower, void* context) noexcept
    : FabricBase(attr, context), lower_(std::move(lower)) {}

}  // namespace weft::rxm
