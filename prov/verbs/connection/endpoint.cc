// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints: creation, names, and the queue pair from creation to ready-to-send; see endpoint.h. rdma_cm(7),
// ibv_modify_qp(3).
#include "verbs/connection/endpoint.h"

#include "objects/attributes.h"
#include "verbs/device/event_targets.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

// The endpoint's traffic class as the field of the IP header. -1, the system's default, for labels: they have no agreed
// code points.
int type_of_service(const fi_info& info) noexcept {
  const uint32_t own = or_none(info.tx_attr).tclass;
  const uint32_t wanted = own != FI_TC_UNSPEC ? own : or_none(info.domain_attr).tclass;
  return (wanted & FI_TC_DSCP) != 0 ? fi_tc_dscp_get(wanted) << 2 & 0xff : -1;
}

// Higher bits are for link addresses, which only old kernels took from user space.
constexpr int kKnownAttributes = (IBV_QP_DEST_QPN << 1) - 1;

Status checked(const char* call, ibv_qp_state state, Status status) noexcept {
  if (status.ok()) [[likely]]
    return status;
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s for state %d: %s\n", call, static_cast<int>(state),
          fi_strerror(status.error()));
  return status;
}

// The attributes that the connection manager has for this transition.
Status attributes_for(rdma_cm_id* id, ibv_qp_state state, ibv_qp_attr& attr, int& mask) noexcept {
  attr = {};
  attr.qp_state = state;
  const Status status = checked("rdma_init_qp_attr", state, status_of(rdma_init_qp_attr(id, &attr, &mask)));
  mask &= kKnownAttributes;
  return status;
}

Status modify(ibv_qp* qp, ibv_qp_attr& attr, int mask) noexcept {
  return mask == 0 ? Status() : checked("ibv_modify_qp", attr.qp_state, status_of(ibv_modify_qp(qp, &attr, mask)));
}

}  // namespace

int Endpoint::open(DomainServices& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !describes_endpoint(*info, FI_EP_MSG, {.receive = true})) return -FI_EINVAL;
  const auto local = CmAddress::source(*info);
  if (!local) return local.error().code();
  Owner endpoint(new Endpoint(domain, *info, *local, context));
  if (::fid* handle = info->handle; handle != nullptr) {
    Status status(-FI_EINVAL);
    if (FabricServices::passive().requests.remove(handle))
      status = endpoint->take_request(object<ConnectRequest>(handle));
    else if (FabricServices::passive().endpoints.contains(handle))
      status = endpoint->take_id(object<PassiveEndpoint>(handle));
    if (!status.ok()) return status.code();
  }
  if (endpoint->properties_.type_of_service() < 0) endpoint->properties_.set_type_of_service(type_of_service(*info));
  *ep = &endpoint.release()->abi;
  return 0;
}

Endpoint::Endpoint(DomainServices& domain, const fi_info& info, const CmAddress& local, void* context)
    : ConnectedEndpoint(domain, info, local, context), properties_(domain.fabric().parameters) {}

Status Endpoint::take_request(ConnectRequest& request) noexcept {
  Lock lock(request.engine().mutex());
  PassiveEndpoint::release(request);
  request_.reset(&request);
  local_ = request.local();
  peer_ = request.peer();
  properties_ = request.properties();
  const Status status = request.move_to(engine());
  if (!status.ok()) request_.reset();
  return status;
}

Status Endpoint::take_id(PassiveEndpoint& passive) noexcept {
  auto id = passive.give_away(local_);
  if (!id) return id.error();
  Lock lock(engine().mutex());
  id_ = std::move(*id);
  id_->context = static_cast<CmHandler*>(this);
  return engine().adopt(*id_);
}

int Endpoint::getopt(int level, int option, void* value, size_t* len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  const bool request = option == FI_OPT_WEFT_REQUEST;
  if (!request && !ConnectionProperties::has(option)) return ConnectedEndpoint::getopt(level, option, value, len);
  Lock lock(engine().mutex());
  if (!request) return properties_.get(option, value, len);
  return request_ != nullptr ? get_request(request_->event().param, value, len) : -FI_EOPBADSTATE;
}

int Endpoint::setopt(int level, int option, const void* value, size_t len) {
  if (level != FI_OPT_ENDPOINT || !ConnectionProperties::has(option))
    return ConnectedEndpoint::setopt(level, option, value, len);
  Lock lock(engine().mutex());
  if (domain_->device().is_iwarp() && ConnectionProperties::needs_retries(option)) {
    FI_WARN(&provider(), FI_LOG_EP_CTRL,
            "fi_setopt refused: iWARP (%s) has no retries of its own, TCP repeats what is lost\n",
            domain_->device().name());
    return -FI_EOPNOTSUPP;
  }
  return unconnected() ? properties_.set(option, value, len) : -FI_EOPBADSTATE;
}

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

// Assigns a port to an unconnected endpoint that has none. Connecting itself would not need one in advance.
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

// ---- The queue pair ----

// The endpoint owns it, not the id: a connection attempt that is repeated keeps it, with the receives posted there; and
// it takes fewer transitions than librdmacm makes.

// The device is known. Reuses the queue pair of an earlier attempt.
Status Endpoint::create_queue_pair() noexcept {
  const bool fresh = qp_ == nullptr;
  if (fresh) {
    ibv_qp_init_attr wanted = qp_attributes();
    wanted.qp_context = static_cast<CmHandler*>(this);
    if (Status status = EventTargets::add(wanted.qp_context); !status.ok()) return status;
    errno = 0;
    qp_.reset(ibv_create_qp(domain_->pd(), &wanted));
    if (qp_ == nullptr) return Status::last_errno();
  }
  ibv_qp_attr attr;
  int mask = 0;
  if (Status status = attributes_for(id_.get(), IBV_QPS_INIT, attr, mask); !status.ok()) return status;
  attr.qp_access_flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (domain_->device().attr().orig_attr.atomic_cap != IBV_ATOMIC_NONE)
    attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  // mana drops posted receives when a queue pair enters INIT again. Over iWARP a failed attempt may have broken it.
  const bool moves = attr.port_num != qp_port_ || attr.pkey_index != qp_pkey_index_;
  if (fresh || moves || domain_->device().is_iwarp())
    if (Status status = modify(qp_.get(), attr, mask); !status.ok()) return status;
  qp_port_ = attr.port_num;
  qp_pkey_index_ = attr.pkey_index;
  if (!fresh) return Status();
  if (Status status = adopt_qp(qp_.get()); !status.ok()) return status;
  return engine().watch_device(domain_->device(), *this);
}

// The parameters of both ends are known: moves the queue pair from INIT to ready-to-send.
Status Endpoint::ready_queue_pair() noexcept {
  const bool accepting = state_ == CmState::kAnswering;
  ibv_qp_attr attr;
  int mask = 0;
  if (Status status = attributes_for(id_.get(), IBV_QPS_RTR, attr, mask); !status.ok()) return status;
  if (mask & IBV_QP_MIN_RNR_TIMER) attr.min_rnr_timer = properties_.min_rnr_timer;
  if (accepting && (mask & IBV_QP_MAX_DEST_RD_ATOMIC)) attr.max_dest_rd_atomic = properties_.responder_resources;
  if (Status status = modify(qp_.get(), attr, mask); !status.ok()) return status;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) properties_.responder_resources = attr.max_dest_rd_atomic;
  if (Status status = attributes_for(id_.get(), IBV_QPS_RTS, attr, mask); !status.ok()) return status;
  if (accepting && (mask & IBV_QP_MAX_QP_RD_ATOMIC)) attr.max_rd_atomic = properties_.initiator_depth;
  if (properties_.ack_timeout >= 0) attr.timeout = static_cast<std::uint8_t>(properties_.ack_timeout);
  if (Status status = modify(qp_.get(), attr, mask); !status.ok()) return status;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) properties_.initiator_depth = attr.max_rd_atomic;
  if (mask & IBV_QP_TIMEOUT) properties_.ack_timeout = static_cast<std::int8_t>(attr.timeout);
  if (mask & IBV_QP_RETRY_CNT) properties_.retry_count = attr.retry_cnt & 7;
  return Status();
}

}  // namespace weft::verbs
