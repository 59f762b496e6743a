// SPDX-License-Identifier: BSD-2-Clause
// Opening the children of fabrics and domains: fi_domain and fi_passive_ep of fi_fabric(3); endpoints and contexts of
// fi_domain(3). It is apart from the parents, so that children may include them.

#include "base/kept.h"
#include "tcp/connection/endpoint.h"
#include "tcp/connection/passive_endpoint.h"
#include "tcp/connection/shared_receive.h"
#include "tcp/reliable/endpoint.h"

namespace weft::tcp {
namespace {

CompletionRoutes* routes_of(const ::fid* fid) noexcept {
  if (CompletionRoutes* routes = rdm::routes_of<ReliableEndpoint>(fid)) return routes;
  auto* endpoint = object_if<Endpoint>(fid);
  return endpoint != nullptr ? &endpoint->routes : nullptr;
}

}  // namespace

// ---- Fabrics ----

Fabric::~Fabric() {
  passive().requests.remove_all(this, [](::fid* handle) noexcept { delete &object<ConnectRequest>(handle); });
}

PassiveHandles& Fabric::passive() noexcept {
  static Kept<PassiveHandles> kept;
  return kept.object;
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Fabric::passive_ep(fi_info* info, fid_pep** pep, void* context) {
  return PassiveEndpoint::open(*this, info, pep, context);
}

// ---- Domains ----

std::unique_ptr<DomainParts> Domain::make_parts() {
  auto parts = std::make_unique<DomainParts>(region_options(), turns(), fabric().parameters.unexpected_bytes);
  parts->engine.deferred().set_handles({.counter = Counter::in_domain, .routes = routes_of});
  return parts;
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  if (or_none(or_none(info).ep_attr).type == FI_EP_RDM) return ReliableEndpoint::open(*this, info, ep, context);
  engine().expect_groups();
  return Endpoint::open(*this, info, ep, context);
}

int Domain::scalable_ep(fi_info* info, fid_ep** sep, void* context) {
  if (or_none(or_none(info).ep_attr).type != FI_EP_RDM) return -FI_EINVAL;
  engine().expect_groups();
  return ReliableEndpoint::open_scalable(*this, info, sep, context);
}

int Domain::stx_ctx(fi_tx_attr* attr, fid_stx** stx, void* context) {
  return SharedTransmit::open(*this, attr, stx, context);
}

int Domain::srx_ctx(fi_rx_attr* attr, fid_ep** ep, void* context) {
  engine().expect_groups();
  if (reliable_) return rdm::SharedReceive<ReliableEndpoint>::open(*this, attr, ep, context);
  return SharedReceive::open(*this, attr, ep, context);
}

int Domain::query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags) {
  return reliable_ ? rdm::query_atomic(kMaxAtomicBytes, datatype, operation, attr, flags) : -FI_EOPNOTSUPP;
}

}  // namespace weft::tcp
