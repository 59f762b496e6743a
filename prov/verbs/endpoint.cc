// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints: creation, bindings, options, names; see endpoint.h.
#include "verbs/endpoint.h"

#include <rdma/fi_ext.h>

#include "abi/cm_ops.h"
#include "abi/ep_ops.h"
#include "abi/fid_ops.h"
#include "objects/endpoint_options.h"
#include "verbs/fabric.h"
#include "verbs/passive_endpoint.h"
#include "verbs/shared_receive.h"

namespace weft::verbs {
namespace {

bool is_for_connections(const fi_info& info) noexcept {
  if (info.ep_attr == nullptr) return true;
  if (info.ep_attr->type != FI_EP_MSG && info.ep_attr->type != FI_EP_UNSPEC) return false;
  return info.ep_attr->tx_ctx_cnt <= 1 &&
         (info.ep_attr->rx_ctx_cnt <= 1 || info.ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT);
}

// The traffic class of the endpoint as the IP header's field. Labels have no agreed code points: the system's default.
int type_of_service(const Parameters& parameters, const fi_info& info) noexcept {
  if (parameters.type_of_service >= 0) return parameters.type_of_service;
  const uint32_t own = info.tx_attr != nullptr ? info.tx_attr->tclass : uint32_t{FI_TC_UNSPEC};
  const uint32_t of_domain = info.domain_attr != nullptr ? info.domain_attr->tclass : uint32_t{FI_TC_UNSPEC};
  const uint32_t wanted = own != FI_TC_UNSPEC ? own : of_domain;
  return (wanted & FI_TC_DSCP) != 0 ? fi_tc_dscp_get(wanted) << 2 & 0xff : -1;
}

}  // namespace

int Endpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !is_for_connections(*info)) return -FI_EINVAL;
  CmAddress local = CmAddress::any(info->addr_format);
  if (info->src_addr != nullptr) {
    const auto given = CmAddress::from(info->addr_format, info->src_addr, info->src_addrlen);
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
      Lock lock(fabric.engine().mutex());
      auto& request = object<ConnectRequest>(handle);
      PassiveEndpoint::release(request);
      endpoint->request_.reset(&request);
      endpoint->local_ = request.local();
      endpoint->peer_ = request.peer();
    } else if (fabric.passive_endpoints.contains(handle)) {
      Lock lock(fabric.engine().mutex());
      auto id = object<PassiveEndpoint>(handle).give_away();
      if (!id) return id.error().code();
      endpoint->id_ = std::move(*id);
      endpoint->id_->context = static_cast<CmHandler*>(endpoint.get());
      endpoint->local_ = CmAddress::from(rdma_get_local_addr(endpoint->id_.get()));
    } else {
      return -FI_EINVAL;
    }
  }
  *ep = &endpoint.release()->abi;
  return 0;
}

Endpoint::Endpoint(Domain& domain, const fi_info& info, const CmAddress& local, void* context)
    : TransferEndpoint(domain, info, context),
      domain_ref_(domain),
      addr_format_(info.addr_format),
      type_of_service_(type_of_service(domain.fabric().parameters, info)),
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

CmEngine& Endpoint::engine() const noexcept {
  return domain_.fabric().engine();
}

const Parameters& Endpoint::parameters() const noexcept {
  return domain_.fabric().parameters;
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
  if (auto* queue = CompletionQueue::from(object)) return bind_cq(*queue, flags).code();
  if (auto* counter = Counter::from(object)) return bind_counter(*counter, flags).code();
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

// An id can be bound once: another name takes another id.
int Endpoint::setname(void* name, size_t len) {
  const auto wanted = CmAddress::from(addr_format_, name, len);
  if (!wanted) return wanted.error().code();
  Lock lock(engine().mutex());
  if ((state_ != CmState::kIdle && state_ != CmState::kEnabled) || request_ != nullptr) return -FI_EOPBADSTATE;
  const CmAddress before = std::exchange(local_, *wanted);
  id_.reset();
  Status status = bind_id();
  if (!status.ok()) local_ = before;
  return status.code();
}

// An endpoint that has no port yet gets one when somebody asks for it: connecting needs none in advance.
int Endpoint::getname(void* name, size_t* len) {
  Lock lock(engine().mutex());
  const bool idle = state_ == CmState::kIdle || state_ == CmState::kEnabled;
  if (idle && request_ == nullptr && id_ == nullptr)
    if (Status status = bind_id(); !status.ok()) return status.code();
  if (id_ != nullptr) {
    const CmAddress now = CmAddress::from(rdma_get_local_addr(id_.get()));
    if (now) local_ = now;
  }
  return local_.report(name, len);
}

int Endpoint::getpeer(void* name, size_t* len) {
  Lock lock(engine().mutex());
  if (state_ != CmState::kConnected) return -FI_ENOTCONN;
  return peer_.report(name, len);
}

Status Endpoint::bind_id() noexcept {
  auto id = engine().create_id(*this, local_.port_space());
  if (!id) return id.error();
  if (rdma_bind_addr(id->get(), local_.data()) != 0) return Status::last_errno();
  id_ = std::move(*id);
  local_ = CmAddress::from(rdma_get_local_addr(id_.get()));
  return Status();
}

}  // namespace weft::verbs
