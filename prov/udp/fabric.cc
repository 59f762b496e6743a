// SPDX-License-Identifier: BSD-2-Clause
// A udp fabric; see fabric.h.
#include "udp/fabric.h"

#include "udp/domain.h"
#include "udp/queues.h"

namespace weft::udp {

Result<Fabric*> Fabric::make(const fi_fabric_attr& attr, void* context) {
  return new Fabric(attr, context);
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

}  // namespace weft::udp
