// SPDX-License-Identifier: BSD-2-Clause
// Owners of libibverbs objects: each is released once, by the matching call.
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

}  // namespace weft::verbs
