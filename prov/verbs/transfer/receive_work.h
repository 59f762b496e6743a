// SPDX-License-Identifier: BSD-2-Clause
// A receive before it is posted: its scatter list and its record; the same for queue pairs and shared contexts.
// fi_msg(3), ibv_post_recv(3).
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>

#include "verbs/device/limits.h"
#include "verbs/transfer/memory_region.h"
#include "verbs/transfer/work_queue.h"

namespace weft::verbs {

// The limits of receives in a queue.
struct ReceiveLimits {
  std::size_t iov = 1;
  std::uint32_t sges = 1;             // with the spill element
  std::uint64_t longest_message = 0;  // bytes
  ibv_sge spill{};                    // the excess of long messages goes there; length 0: no such memory
};

// The parameters of a receive, fi_msg(3).
struct ReceiveWork {
  ibv_sge* sges;
  int count;
  std::uint32_t len;    // bytes the application's buffers hold
  std::uint32_t flags;  // of Posted
  void* context;
  MultiReceive multi;  // FI_MULTI_RECV
};

// The scatter list of a receive of up to N buffers, with the spill element last. Buffers that are NULL hold nothing:
// the spill element is repeated for their lengths, as often as the queue has room.
template <std::size_t N>
struct ReceiveList {
  ibv_sge sges[N + 1];
  int count = 0;
  std::uint64_t len = 0;
  std::uint64_t dropped = 0;  // bytes of NULL buffers

  // -FI_EINVAL for a buffer without descriptor.
  int add(void* buf, std::size_t size, std::uint32_t lkey, const ReceiveLimits& limits) noexcept {
    if (buf == nullptr) [[unlikely]] {
      dropped += size;
      return 0;
    }
    if (size == 0) return 0;  // some devices take a length of 0 for 2 GiB
    if (lkey == 0) [[unlikely]]
      return -FI_EINVAL;
    const auto taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, limits.longest_message));
    sges[count++] = {reinterpret_cast<std::uintptr_t>(buf), taken, lkey};
    len += taken;
    return 0;
  }
  // After the buffers. `flags`: FI_COMPLETION and FI_MULTI_RECV count.
  ReceiveWork work(const ReceiveLimits& limits, std::uint64_t flags, void* context) noexcept {
    std::uint64_t spilled = 0;
    while (spilled <= dropped && limits.spill.length != 0 && static_cast<std::uint32_t>(count) < limits.sges) {
      sges[count++] = limits.spill;
      spilled += limits.spill.length;
    }
    ReceiveWork result;
    result.sges = sges;
    result.count = count;
    result.len = static_cast<std::uint32_t>(std::min<std::uint64_t>(len, UINT32_MAX));
    result.flags = static_cast<std::uint32_t>(flags & (FI_COMPLETION | FI_MULTI_RECV));
    result.context = context;
    return result;
  }
};

// The prepared work request of a receive of one buffer; only the variable fields are written.
struct StraightReceive {
  ibv_recv_wr request{};
  ibv_sge pieces[2]{};      // the application's, and spill
  std::uint32_t flags = 0;  // of Posted
  bool allowed = false;

  void prepare(const ReceiveLimits& limits) noexcept {
    pieces[1] = limits.spill;
    request.sg_list = pieces;
    request.num_sge = limits.spill.length != 0 && limits.sges > 1 ? 2 : 1;
  }
  // Writes the record, too.
  [[gnu::always_inline]] ibv_recv_wr* fill(Posted& slot, void* buf, std::size_t len, const void* desc,
                                           void* context) noexcept {
    slot.context = context;
    slot.flags = flags;
    slot.len = static_cast<std::uint32_t>(len);
    pieces[0] = {reinterpret_cast<std::uintptr_t>(buf), static_cast<std::uint32_t>(len), lkey_of(desc)};
    slot.busy.store(true, std::memory_order_relaxed);
    request.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
    return &request;
  }
};

}  // namespace weft::verbs
