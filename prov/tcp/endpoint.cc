// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints: creation, bindings, options, names; see endpoint.h.
#include "tcp/endpoint.h"

#include <rdma/fi_ext.h>

#include "abi/cm_ops.h"
#include "abi/ep_ops.h"
#include "abi/fid_ops.h"
#include "objects/endpoint_options.h"
#include "tcp/listener.h"
#include "tcp/names.h"
#include "tcp/passive_endpoint.h"
#include "tcp/shared_receive.h"

namespace weft::tcp {
namespace {

bool is_for_connections(const fi_info& info) noexcept {
  if (info.ep_attr == nullptr) return true;
  if (info.ep_attr->type != FI_EP_MSG && info.ep_attr->type != FI_EP_UNSPEC) return false;
  return info.ep_attr->tx_ctx_cnt <= 1 &&
         (info.ep_attr->rx_ctx_cnt <= 1 || info.ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT);
}

}  // namespace

int Endpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !is_for_connections(*info)) return -FI_EINVAL;
  Address local = unnamed(info->addr_format);
  if (info->src_addr != nullptr) {
    const auto given = read_name(info->addr_format, info->src_addr, info->src_addrlen);
    if (!given) return given.error().code();
    local = *given;
  }
  Fabric& fabric = domain.fabric();
  struct Deleter {
    void operator()(Endpoint* endpoint) const noexcept { delete endpoint; }
  };
  std::unique_ptr<Endpoint, Deleter> endpoint(new Endpoint(domain, *info, local, context));
  if (::fid* handle = info->handle; handle != nullptr) {
    if (fabric.requests.remove(handle)) {
      endpoint->request_.reset(&object<ConnectRequest>(handle));
      Listener::release(*endpoint->request_);
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
    : TransferEndpoint(domain, info, context),
      domain_ref_(domain),
      addr_format_(info.addr_format),
      connect_timeout_ms_(domain.fabric().parameters.connect_timeout_ms),
      local_(local) {
  static constexpr fi_ops_ep kEpOps = make_ep_ops<Endpoint>();
  static constexpr fi_ops_cm kCmOps = make_cm_ops<Endpoint>();
  abi.fid.ops = const_cast<fi_ops*>(fid_ops());
  abi.ops = const_cast<fi_ops_ep*>(&kEpOps);
  abi.cm = const_cast<fi_ops_cm*>(&kCmOps);
}

const fi_ops* Endpoint::fid_ops() noexcept {
  static constexpr fi_ops kOps = make_fid_ops<Endpoint>();
  return &kOps;
}

int Endpoint::close() {
  {
    Lock lock(engine().mutex());
    enter(CmEvent::kClose);
  }
  if (events_) {
    events_->detach(engine());
    events_->remove(&abi.fid);
  }
  delete this;
  return 0;
}

int Endpoint::bind(::fid* object, uint64_t flags) {
  if (auto* queue = EventQueue::from(object)) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (events_) return -FI_EINVAL;
    if (Status status = queue->attach(engine()); !status.ok()) return status.code();
    Lock lock(engine().mutex());
    events_ = Ref<EventQueue>(*queue);
    return 0;
  }
  Lock lock(engine().mutex());
  if (auto* queue = CompletionQueue::from(object))
    return &queue->engine() == &engine() ? bind_cq(*queue, flags).code() : -FI_EDOMAIN;
  if (auto* counter = Counter::from(object))
    return &counter->engine() == &engine() ? bind_counter(*counter, flags).code() : -FI_EDOMAIN;
  if (auto* shared = object_if<SharedReceive>(object)) return bind_shared_receive(*shared).code();
  return -FI_EINVAL;
}

int Endpoint::control(int command, void* argument) {
  if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG)
    return control_flags(command, static_cast<uint64_t*>(argument));
  if (command != FI_ENABLE) return -FI_ENOSYS;
  Lock lock(engine().mutex());
  return admit(CmEvent::kEnable).code();
}

int Endpoint::getopt(int level, int option, void* value, size_t* len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  switch (option) {
    case FI_OPT_CM_DATA_SIZE:
      return report_option(size_t{kCmDataSize}, value, len);
    case FI_OPT_WEFT_CONNECT_TIMEOUT: {
      Lock lock(engine().mutex());
      return report_option(connect_timeout_ms_, value, len);
    }
    default:
      return getopt_transfer(option, value, len);
  }
}

int Endpoint::setopt(int level, int option, const void* value, size_t len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  if (option != FI_OPT_WEFT_CONNECT_TIMEOUT) return setopt_transfer(option, value, len);
  int timeout_ms = 0;
  if (int result = read_option(value, len, timeout_ms); result != 0) return result;
  if (timeout_ms < 0) return -FI_EINVAL;
  Lock lock(engine().mutex());
  if (state_ != CmState::kIdle && state_ != CmState::kEnabled) return -FI_EOPBADSTATE;
  connect_timeout_ms_ = timeout_ms;
  return 0;
}

int Endpoint::setname(void* name, size_t len) {
  auto wanted = read_name(addr_format_, name, len);
  if (!wanted) return wanted.error().code();
  Lock lock(engine().mutex());
  if ((state_ != CmState::kIdle && state_ != CmState::kEnabled) || request_ != nullptr) return -FI_EOPBADSTATE;
  bound_.reset();
  auto socket = open_bound(*wanted, domain_.fabric().parameters, false);
  if (!socket) return socket.error().code();
  bound_ = std::move(*socket);
  local_ = *wanted;
  return 0;
}

// An endpoint that has no port yet gets one when somebody asks for it: connecting needs none in advance.
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

int Endpoint::getpeer(void* name, size_t* len) {
  Lock lock(engine().mutex());
  if (state_ != CmState::kConnected) return -FI_ENOTCONN;
  return report_name(peer_, name, len);
}

}  // namespace weft::tcp
