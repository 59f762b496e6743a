// SPDX-License-Identifier: BSD-2-Clause
// The scatter list of a receive, the same for endpoints and shared contexts; fi_msg(3), ibv_post_recv(3).
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>

#include "verbs/kept_receives.h"
#include "verbs/limits.h"
#include "verbs/memory_region.h"

namespace weft::verbs {

// Where a receive may scatter to, with the spill element last.
template <std::size_t N>
struct ReceiveList {
  ibv_sge sges[N + 1];
  int count = 0;
  std::uint64_t len = 0;

  // -FI_EINVAL for a buffer without descriptor. `most`: no message is longer.
  int add(void* buf, std::size_t size, const void* desc, std::uint64_t most) noexcept {
    if (size == 0) return 0;  // some devices take a length of 0 for 2 GiB
    const std::uint32_t lkey = lkey_of(desc);
    if (lkey == 0) [[unlikely]]
      return -FI_EINVAL;
    const auto taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, most));
    sges[count++] = {reinterpret_cast<std::uintptr_t>(buf), taken, lkey};
    len += taken;
    return 0;
  }
  // What is too long ends there, if there is such memory and room for it in the work request.
  void add_spill(const ibv_sge& spill, std::uint32_t limit) noexcept {
    if (spill.length != 0 && static_cast<std::uint32_t>(count) < limit) sges[count++] = spill;
  }
};

}  // namespace weft::verbs
