// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints: creation, bindings, options, names; see endpoint.h.
#include "verbs/connection/endpoint.h"

#include "objects/attributes.h"

namespace weft::verbs {
namespace {

// The endpoint's traffic class as the field of the IP header. -1, the system's default, for labels: they have no agreed
// code points.
int type_of_service(const Parameters& parameters, const fi_info& info) noexcept {
  if (parameters.type_of_service >= 0) return parameters.type_of_service;
  const uint32_t own = info.tx_attr != nullptr ? info.tx_attr->tclass : uint32_t{FI_TC_UNSPEC};
  const uint32_t of_domain = info.domain_attr != nullptr ? info.domain_attr->tclass : uint32_t{FI_TC_UNSPEC};
  const uint32_t wanted = own != FI_TC_UNSPEC ? own : of_domain;
  return (wanted & FI_TC_DSCP) != 0 ? fi_tc_dscp_get(wanted) << 2 & 0xff : -1;
}

}  // namespace

int Endpoint::open(DomainServices& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !describes_endpoint(*info, FI_EP_MSG, {.receive = true})) return -FI_EINVAL;
  const auto local = CmAddress::source(*info);
  if (!local) return local.error().code();
  FabricServices& fabric = domain.fabric();
  Owner endpoint(new Endpoint(domain, *info, *local, context));
  if (::fid* handle = info->handle; handle != nullptr) {
    if (fabric.requests.remove(handle)) {
      Lock lock(fabric.engine().mutex());
      auto& request = object<ConnectRequest>(handle);
      PassiveEndpoint::release(request);
      endpoint->request_.reset(&request);
      endpoint->local_ = request.local();
      endpoint->peer_ = request.peer();
    } else if (fabric.passive_endpoints.contains(handle)) {
      auto id = object<PassiveEndpoint>(handle).give_away(endpoint->local_);
      if (!id) return id.error().code();
      Lock lock(fabric.engine().mutex());
      endpoint->id_ = std::move(*id);
      endpoint->id_->context = static_cast<CmHandler*>(endpoint.get());
    } else {
      return -FI_EINVAL;
    }
  }
  *ep = &endpoint.release()->abi;
  return 0;
}

Endpoint::Endpoint(DomainServices& domain, const fi_info& info, const CmAddress& local, void* context)
    : ConnectedEndpoint(domain, info, local, context),
      type_of_service_(type_of_service(domain.fabric().parameters, info)) {}

// An id can be bound only once, so another name needs another id.
int Endpoint::setname(void* name, size_t len) {
  const auto wanted = CmAddress::from(addr_format_, name, len);
  if (!wanted) return wanted.error().code();
  Lock lock(engine().mutex());
  if (!unconnected() || request_ != nullptr) return -FI_EOPBADSTATE;
  const CmAddress before = std::exchange(local_, *wanted);
  id_.reset();
  Status status = bind_id();
  if (!status.ok()) local_ = before;
  return status.code();
}

// Assigns a port to an unconnected endpoint that has none: connecting would need none in advance.
int Endpoint::getname(void* name, size_t* len) {
  Lock lock(engine().mutex());
  if (unconnected() && request_ == nullptr && id_ == nullptr)
    if (Status status = bind_id(); !status.ok()) return status.code();
  if (id_ != nullptr) {
    const CmAddress now = CmAddress::from(rdma_get_local_addr(id_.get()));
    if (now) local_ = now;
  }
  return report_name(local_, name, len);
}

Status Endpoint::bind_id() noexcept {
  auto id = engine().create_bound_id(*this, local_);
  if (!id) return id.error();
  id_ = std::move(*id);
  return Status();
}

}  // namespace weft::verbs
