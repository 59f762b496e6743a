// SPDX-License-Identifier: BSD-2-Clause
// The queue pair of an endpoint: from creation to ready-to-send, and to its error state; rdma_cm(7), ibv_modify_qp(3).
//
// The endpoint owns it, not the id: a connection attempt that is repeated keeps it, with the receives posted there; and
// it takes fewer transitions than librdmacm makes.

#include "verbs/connection/endpoint.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

// Higher bits are for link addresses, which only old kernels took from user space.
constexpr int kKnownAttributes = (IBV_QP_DEST_QPN << 1) - 1;

Status checked(const char* call, ibv_qp_state state, Status status) noexcept {
  if (!status.ok())
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

// The device is known. Reuses the queue pair of an earlier attempt.
Status Endpoint::create_queue_pair() noexcept {
  const bool fresh = qp_ == nullptr;
  if (fresh) {
    ibv_qp_init_attr wanted = qp_attributes();
    wanted.qp_type = IBV_QPT_RC;
    wanted.qp_context = static_cast<CmHandler*>(this);
    errno = 0;
    qp_.reset(ibv_create_qp(domain_.pd(), &wanted));
    if (qp_ == nullptr) return Status::last_errno();
  }
  ibv_qp_attr attr;
  int mask = 0;
  if (Status status = attributes_for(id_.get(), IBV_QPS_INIT, attr, mask); !status.ok()) return status;
  attr.qp_access_flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (domain_.device().attr().orig_attr.atomic_cap != IBV_ATOMIC_NONE) attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  if (Status status = modify(qp_.get(), attr, mask); !status.ok()) return status;
  if (!fresh) return Status();
  if (Status status = adopt_qp(qp_.get()); !status.ok()) return status;
  return engine().watch_device(domain_.device(), *this);
}

// Both ends know each other: moves it from INIT to ready-to-send.
Status Endpoint::ready_queue_pair() noexcept {
  const Parameters& values = parameters();
  const bool accepting = state_ == CmState::kAnswering;
  ibv_qp_attr attr;
  int mask = 0;
  if (Status status = attributes_for(id_.get(), IBV_QPS_RTR, attr, mask); !status.ok()) return status;
  if (mask & IBV_QP_MIN_RNR_TIMER) attr.min_rnr_timer = values.min_rnr_timer;
  if (accepting && (mask & IBV_QP_MAX_DEST_RD_ATOMIC)) attr.max_dest_rd_atomic = attempt_->responder_resources;
  if (Status status = modify(qp_.get(), attr, mask); !status.ok()) return status;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) attempt_->responder_resources = attr.max_dest_rd_atomic;
  if (Status status = attributes_for(id_.get(), IBV_QPS_RTS, attr, mask); !status.ok()) return status;
  if (accepting && (mask & IBV_QP_MAX_QP_RD_ATOMIC)) attr.max_rd_atomic = attempt_->initiator_depth;
  if (Status status = modify(qp_.get(), attr, mask); !status.ok()) return status;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) attempt_->initiator_depth = attr.max_rd_atomic;
  if (mask & IBV_QP_TIMEOUT) attempt_->ack_timeout = attr.timeout;
  return Status();
}

}  // namespace weft::verbs
