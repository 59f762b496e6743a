// SPDX-License-Identifier: BSD-2-Clause
// Opening fabrics, and the children of fabrics and domains: fi_fabric(3), fi_domain(3). It is apart from the parents,
// so that the children may include them.
#include "objects/shared_transmit.h"
#include "rxm/endpoint.h"
#include "rxm/memory_region.h"

namespace weft::rxm {

Result<Fabric*> Fabric::make(const fi_fabric_attr& attr, void* context) {
  if (attr.prov_name == nullptr) return failure(FI_EINVAL);
  std::string core = lower_name(attr.prov_name);
  fi_fabric_attr below = attr;
  below.prov_name = core.data();
  below.api_version = lower_version(attr.api_version);
  fid_fabric* opened = nullptr;
  if (const int error = fi_fabric(&below, &opened, nullptr); error != 0) return failure(Status(error));
  Lower<fid_fabric> lower(opened);
  return new Fabric(attr, std::move(lower), context);
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

std::unique_ptr<DomainParts> Domain::make_parts() {
  auto parts = std::make_unique<DomainParts>(region_options(), turns(), fabric().parameters.unexpected_bytes);
  parts->engine.deferred().set_handles(
      {.counter = Counter::in_domain,
       .routes = [](const ::fid* fid) -> CompletionRoutes* { return rdm::routes_of<Endpoint>(fid); }});
  return parts;
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return Endpoint::open(*this, info, ep, context);
}

int Domain::scalable_ep(fi_info* info, fid_ep** sep, void* context) {
  engine().expect_groups();
  return Endpoint::open_scalable(*this, info, sep, context);
}

int Domain::stx_ctx(fi_tx_attr* attr, fid_stx** stx, void* context) {
  return SharedTransmit::open(*this, attr, stx, context);
}

int Domain::srx_ctx(fi_rx_attr* attr, fid_ep** srx, void* context) {
  engine().expect_groups();
  return rdm::SharedReceive<Endpoint>::open(*this, attr, srx, context);
}

int Domain::regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  return MemoryRegion::open(*this, attr, flags, mr);
}

}  // namespace weft::rxm
