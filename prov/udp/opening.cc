// SPDX-License-Identifier: BSD-2-Clause
// How the provider's objects are opened: fi_fabric, fi_domain and fi_endpoint; fi_fabric(3), fi_domain(3),
// fi_endpoint(3). Here alone an object names the class of its children.
#include "udp/domain.h"
#include "udp/endpoint.h"
#include "udp/fabric.h"

namespace weft::udp {

Result<Fabric*> Fabric::make(const fi_fabric_attr& attr, void* context) {
  return new Fabric(attr, context);
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return Endpoint::open(*this, info, ep, context);
}

}  // namespace weft::udp
