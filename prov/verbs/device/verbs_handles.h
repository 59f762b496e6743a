// SPDX-License-Identifier: BSD-2-Clause
// Owners of libibverbs objects; each is released by the matching call.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

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

struct DestroyQueuePair {
  // A queue pair that the device does not destroy may still raise events; they must not find a handler.
  void operator()(ibv_qp* qp) const noexcept {
    if (ibv_destroy_qp(qp) != 0) qp->qp_context = nullptr;
  }
};
using QueuePairHandle = std::unique_ptr<ibv_qp, DestroyQueuePair>;

}  // namespace weft::verbs
