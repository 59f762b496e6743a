// SPDX-License-Identifier: BSD-2-Clause
// A tcp fabric; see fabric.h.
#include "tcp/fabric.h"

#include "tcp/domain.h"
#include "tcp/passive_endpoint.h"
#include "tcp/queues.h"

namespace weft::tcp {

Result<Fabric*> Fabric::make(const fi_fabric_attr& attr, void* context) {
  return new Fabric(attr, context);
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Fabric::passive_ep(fi_info* info, fid_pep** pep, void* context) {
  return PassiveEndpoint::open(*this, info, pep, context);
}

}  // namespace weft::tcp
