// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints: creation, bindings, options, names; see endpoint.h.
#include "tcp/connection/endpoint.h"

#include "objects/attributes.h"
#include "tcp/connection/listener.h"
#include "tcp/connection/passive_endpoint.h"
#include "tcp/names.h"

namespace weft::tcp {

int Endpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !describes_endpoint(*info, FI_EP_MSG, {.transmit = true, .receive = true}))
    return -FI_EINVAL;
  const auto local = source_name(*info);
  if (!local) return local.error().code();
  Fabric& fabric = domain.fabric();
  Owner endpoint(new Endpoint(domain, *info, *local, context));
  if (::fid* handle = info->handle; handle != nullptr) {
    if (fabric.requests.remove(handle)) {
      endpoint->request_.reset(&object<ConnectRequest>(handle));
      EventListener::release(*endpoint->request_);
      endpoint->local_ = endpoint->request_->local;
      endpoint->peer_ = endpoint->request_->peer();
    } else if (fabric.passive_endpoints.contains(handle)) {
      auto socket = object<PassiveEndpoint>(handle).give_away(endpoint->local_);
      if (!socket) return socket.error().code();
      endpoint->bound_ = std::move(*socket);
    } else {
      return -FI_EINVAL;
    }
  }
  *ep = &endpoint.release()->abi;
  return 0;
}

Endpoint::Endpoint(Domain& domain, const fi_info& info, const Address& local, void* context)
    : ConnectedEndpoint(domain, info, local, context) {}

int Endpoint::close() {
  if (in_use()) return -FI_EBUSY;
  routes.drop_triggered(abi);
  {
    Lock lock(engine().mutex());
    enter(CmEvent::kClose);
  }
  release_events(events_, engine(), abi.fid);
  delete this;
  return 0;
}

int Endpoint::setname(void* name, size_t len) {
  auto wanted = read_name(addr_format_, name, len);
  if (!wanted) return wanted.error().code();
  Lock lock(engine().mutex());
  if (!unconnected() || request_ != nullptr) return -FI_EOPBADSTATE;
  bound_.reset();
  auto socket = open_bound(*wanted, domain_.fabric().parameters, false);
  if (!socket) return socket.error().code();
  bound_ = std::move(*socket);
  local_ = *wanted;
  return 0;
}

// Binds an endpoint without a port only here: connecting needs no port in advance.
int Endpoint::getname(void* name, size_t* len) {
  Lock lock(engine().mutex());
  if (handshake_ != nullptr || state_ == CmState::kConnected) {
    local_ = name_of(handshake_ != nullptr ? handshake_->socket.get() : socket_, local_);
  } else if (state_ != CmState::kClosed && request_ == nullptr && !bound_) {
    auto socket = open_bound(local_, domain_.fabric().parameters, false);
    if (!socket) return socket.error().code();
    bound_ = std::move(*socket);
  }
  return report_name(local_, name, len);
}

}  // namespace weft::tcp
