// SPDX-License-Identifier: BSD-2-Clause
// Owners of the objects of libibverbs and librdmacm, each released by the matching call; and the errors of those calls.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/status.h"

namespace weft::verbs {

template <auto Release>
struct ReleaseWith {
  template <class T>
  void operator()(T* handle) const noexcept {
    Release(handle);
  }
};

using ProtectionDomainHandle = std::unique_ptr<ibv_pd, ReleaseWith<ibv_dealloc_pd>>;
using CompletionChannelHandle = std::unique_ptr<ibv_comp_channel, ReleaseWith<ibv_destroy_comp_channel>>;
using CompletionQueueHandle = std::unique_ptr<ibv_cq, ReleaseWith<ibv_destroy_cq>>;
using SharedReceiveQueueHandle = std::unique_ptr<ibv_srq, ReleaseWith<ibv_destroy_srq>>;
using AddressHandle = std::unique_ptr<ibv_ah, ReleaseWith<ibv_destroy_ah>>;
using MemoryRegionHandle = std::unique_ptr<ibv_mr, ReleaseWith<ibv_dereg_mr>>;
using EventChannelHandle = std::unique_ptr<rdma_event_channel, ReleaseWith<rdma_destroy_event_channel>>;
// rdma_destroy_id never waits, because every event is acknowledged before its handler runs.
using CmIdHandle = std::unique_ptr<rdma_cm_id, ReleaseWith<rdma_destroy_id>>;

struct DestroyQueuePair {
  // A queue pair that the device does not destroy may still raise events; they must not find a handler.
  void operator()(ibv_qp* qp) const noexcept {
    if (ibv_destroy_qp(qp) != 0) qp->qp_context = nullptr;
  }
};
using QueuePairHandle = std::unique_ptr<ibv_qp, DestroyQueuePair>;

// Calls of libibverbs return an errno, or -1 and set errno; those of cxgb4, erdma, siw and bnxt_re the negative of one.
inline int errno_of(int result) noexcept {
  return result == -1 ? errno : std::abs(result);
}
inline Status status_of(int result) noexcept {
  return result == 0 ? Status() : Status::from_errno(errno_of(result));
}
// Moves the queue pair (may be null) to its error state, which flushes everything that is posted.
inline bool break_queue_pair(ibv_qp* qp) noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return qp != nullptr && ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0;
}
inline Status set_nonblocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? Status::last_errno() : Status();
}

}  // namespace weft::verbs
