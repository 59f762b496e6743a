// SPDX-License-Identifier: BSD-2-Clause
// How every transmission gets to the device, for the compiler to see where it knows what is sent: in calls that say so,
// most of this goes away. Included by the sources that post. ibv_post_send(3).
#pragma once

#include "verbs/send_work.h"
#include "verbs/transfer_endpoint.h"

namespace weft::verbs {

inline constexpr uint64_t kUnsupportedLevels = FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE;

// Everything that can be said against `work` without looking at the queue.
[[gnu::always_inline]] inline ssize_t TransferEndpoint::check(const SendWork& work) const noexcept {
  if (work.len <= sizes_.inline_bytes && carries_data(work.opcode)) [[likely]]
    return (work.flags & kUnsupportedLevels) != 0 ? -FI_EBADFLAGS : 0;
  if (work.len > max_message_) return -FI_EMSGSIZE;
  if ((work.flags & FI_INJECT) != 0 && carries_data(work.opcode)) return -FI_EMSGSIZE;
  for (int i = 0; i < work.count; ++i)
    if (work.sges[i].lkey == 0) return -FI_EINVAL;  // FI_MR_LOCAL: the buffer needs a descriptor
  return (work.flags & kUnsupportedLevels) != 0 ? -FI_EBADFLAGS : 0;
}

// Writes the record of a work request; returns its send_flags.
[[gnu::always_inline]] inline unsigned TransferEndpoint::fill(Posted& slot, const SendWork& work) const noexcept {
  uint32_t flags = work.kind;
  if (!work.silent) flags |= always_report_ | (static_cast<uint32_t>(work.flags & FI_COMPLETION) & may_report_);
  if ((work.kind & counted_kinds_) != 0) flags |= Posted::kCount;
  slot.context = work.context;
  slot.flags = flags;
  slot.status = 0;
  unsigned send_flags = 0;
  if ((flags & (Posted::kReport | Posted::kCount)) != 0 || sends_.must_signal()) send_flags |= IBV_SEND_SIGNALED;
  if (work.len <= sizes_.inline_bytes && work.count != 0 && carries_data(work.opcode)) send_flags |= IBV_SEND_INLINE;
  if ((work.flags & FI_FENCE) != 0) send_flags |= IBV_SEND_FENCE;
  return send_flags;
}

[[gnu::always_inline]] inline ssize_t TransferEndpoint::post_locked(const SendWork& work) noexcept {
  if ((work.flags & FI_MORE) != 0 || (chain_ != nullptr && !chain_->empty())) [[unlikely]] {
    const SendWork copy = work;  // so that `work` itself need not be in memory
    return post_in_chain(copy);
  }
  Posted* const slot = next_send();
  if (slot == nullptr) [[unlikely]]
    return on_no_room();
  ibv_send_wr wr;
  build(wr, work);
  wr.wr_id = reinterpret_cast<uintptr_t>(slot);
  wr.next = nullptr;
  wr.send_flags = fill(*slot, work);
  ibv_send_wr* bad;
  const int error = ibv_post_send(qp_, &wr, &bad);
  if (error != 0) [[unlikely]]
    return error == ENOMEM ? -FI_EAGAIN : Status::from_errno(error).code();
  sends_.push((wr.send_flags & IBV_SEND_SIGNALED) != 0);
  return 0;
}

[[gnu::always_inline]] inline ssize_t TransferEndpoint::post_inlined(const SendWork& work) noexcept {
  if (const ssize_t refusal = check(work); refusal != 0) [[unlikely]]
    return refusal;
  LightGuard guard(send_lock_);
  return post_locked(work);
}

}  // namespace weft::verbs
