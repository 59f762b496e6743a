// SPDX-License-Identifier: BSD-2-Clause
// The path of every transmission to the device, inline, so that the compiler sees which kind of transmission a call
// makes and removes most of it. Included by the sources that post. ibv_post_send(3).
#pragma once

#include "base/reload_barrier.h"  // for callers of post_straight()
#include "base/within.h"
#include "verbs/transfer/send_queue.h"

namespace weft::verbs {

inline constexpr uint64_t kUnsupportedLevels = FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE;

[[gnu::always_inline]] inline ssize_t SendQueue::check(const SendWork& work) const noexcept {
  for (int i = 0; i < work.count; ++i)
    if (work.sges[i].addr == 0) [[unlikely]]
      return -FI_EINVAL;
  if ((work.flags & kUnsupportedLevels) != 0) [[unlikely]]
    return -FI_EBADFLAGS;
  if (work.len <= inline_bytes_ && carries_data(work.opcode)) [[likely]]
    return 0;
  if (work.len > longest_message_) return -FI_EMSGSIZE;
  if ((work.flags & FI_INJECT) != 0 && carries_data(work.opcode)) return -FI_EMSGSIZE;
  for (int i = 0; i < work.count; ++i)
    if (work.sges[i].lkey == 0) return -FI_EINVAL;  // FI_MR_LOCAL: the buffer needs a descriptor
  return 0;
}

[[gnu::always_inline]] inline unsigned SendQueue::fill(Posted& slot, const SendWork& work) const noexcept {
  uint32_t flags = work.kind;
  if (!work.silent) flags |= always_report_ | (static_cast<uint32_t>(work.flags & FI_COMPLETION) & may_report_);
  if ((work.kind & counted_kinds_) != 0) flags |= Posted::kCount;
  slot.context = work.context;
  slot.flags = flags;
  slot.status = 0;
  unsigned send_flags = 0;
  if ((flags & (Posted::kReport | Posted::kCount)) != 0 || ring_.must_signal()) send_flags |= IBV_SEND_SIGNALED;
  if (work.len <= inline_bytes_ && work.count != 0 && carries_data(work.opcode)) send_flags |= IBV_SEND_INLINE;
  if ((work.flags & FI_FENCE) != 0) send_flags |= IBV_SEND_FENCE;
  return send_flags;
}

[[gnu::always_inline]] inline ssize_t SendQueue::post_locked(const SendWork& work) noexcept {
  if ((work.flags & FI_MORE) != 0 || (chain_ != nullptr && !chain_->empty())) [[unlikely]] {
    const SendWork copy = work;  // so that `work` itself may stay in registers
    return post_in_chain(copy);
  }
  Posted* const slot = next_record();
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
    return refused(error);
  ring_.push((wr.send_flags & IBV_SEND_SIGNALED) != 0);
  if (straight_.allowed && !ring_.is_clear()) ring_.clear();
  return 0;
}

// Empty buffers do not qualify: some devices take a length of 0 for 2 GiB.
[[gnu::always_inline]] inline bool SendQueue::may_be_long(const void* buf, size_t len,
                                                          const void* desc) const noexcept {
  return buf != nullptr && lkey_of(desc) != 0 && within(len, longest_message_);
}
[[gnu::always_inline]] inline bool SendQueue::may_go(const void* buf, size_t len, const void* desc) const noexcept {
  return buf != nullptr && (within(len, inline_bytes_) || (lkey_of(desc) != 0 && within(len, longest_message_)));
}

[[gnu::always_inline]] inline int SendQueue::post_straight(const void* buf, size_t len, const void* desc,
                                                           ibv_wr_opcode opcode, uint32_t kind, void* context,
                                                           bool silent) noexcept {
  Posted& slot = ring_.front();
  const uint32_t report = silent ? 0 : straight_.report;
  slot.context = context;
  slot.flags = kind | report;
  unsigned send_flags = report != 0 ? IBV_SEND_SIGNALED : 0;
  // Injected data is known to fit.
  if (carries_data(opcode) && (silent || len <= inline_bytes_)) send_flags |= IBV_SEND_INLINE;
  ibv_send_wr& wr = straight_.request;
  straight_.piece = {reinterpret_cast<uintptr_t>(buf), static_cast<uint32_t>(len), lkey_of(desc)};
  wr.wr_id = reinterpret_cast<uintptr_t>(&slot);
  wr.opcode = opcode;
  wr.send_flags = send_flags;
  ibv_send_wr* bad;
  return ibv_post_send(qp_, &wr, &bad);
}

[[gnu::always_inline]] inline ssize_t SendQueue::end_straight(int error, bool silent) noexcept {
  if (error != 0) [[unlikely]]
    return unlock_refused(lock_, error);
  ring_.push(!silent && straight_.report != 0);
  lock_.unlock();
  return 0;
}

}  // namespace weft::verbs
