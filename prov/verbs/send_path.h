// SPDX-License-Identifier: BSD-2-Clause
// How every transmission gets to the device, for the compiler to see where it knows what is sent: in calls that say so,
// most of this goes away. Included by the sources that post. ibv_post_send(3).
#pragma once

#include <cerrno>

#include "base/unremembered.h"
#include "verbs/send_work.h"
#include "verbs/transfer_endpoint.h"

namespace weft::verbs {

inline constexpr uint64_t kUnsupportedLevels = FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE;

// An error of ibv_post_send or ibv_post_recv.
[[gnu::noinline, gnu::cold]] inline ssize_t refused(int error) noexcept {
  return error == ENOMEM ? -FI_EAGAIN : Status::from_errno(error).code();
}
[[gnu::noinline, gnu::cold]] inline ssize_t unlock_refused(LightLock& lock, int error) noexcept {
  lock.unlock();
  return refused(error);
}

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
    return refused(error);
  sends_.push((wr.send_flags & IBV_SEND_SIGNALED) != 0);
  if (straight_.allowed && !sends_.is_clear()) sends_.clear();
  return 0;
}

// An empty buffer is no buffer: some devices take a length of 0 for 2 GiB.
[[gnu::always_inline]] inline bool TransferEndpoint::may_be_long(size_t len, const void* desc) const noexcept {
  return lkey_of(desc) != 0 && len - 1 < max_message_;
}
[[gnu::always_inline]] inline bool TransferEndpoint::may_go(size_t len, const void* desc) const noexcept {
  return len - 1 < sizes_.inline_bytes || may_be_long(len, desc);
}

// With send_lock_ held, which it releases, while sends_.is_clear(). The caller has written the part of
// straight_.request that belongs to the opcode.
[[gnu::always_inline]] inline ssize_t TransferEndpoint::post_straight(const void* buf, size_t len, const void* desc,
                                                                      ibv_wr_opcode opcode, uint32_t kind,
                                                                      void* context, bool silent) noexcept {
  Posted& slot = sends_.front();
  const uint32_t report = silent ? 0 : straight_.report;
  slot.context = context;
  slot.flags = kind | report;
  unsigned send_flags = report != 0 ? IBV_SEND_SIGNALED : 0;
  // What is injected has been found to fit.
  if (carries_data(opcode) && (silent || len <= sizes_.inline_bytes)) send_flags |= IBV_SEND_INLINE;
  ibv_send_wr& wr = straight_.request;
  straight_.piece = {reinterpret_cast<uintptr_t>(buf), static_cast<uint32_t>(len), lkey_of(desc)};
  wr.wr_id = reinterpret_cast<uintptr_t>(&slot);
  wr.opcode = opcode;
  wr.send_flags = send_flags;
  ibv_send_wr* bad;
  const int error = ibv_post_send(qp_, &wr, &bad);
  TransferEndpoint& self = unremembered(*this);
  if (error != 0) [[unlikely]]
    return unlock_refused(self.send_lock_, error);
  self.sends_.push(!silent && self.straight_.report != 0);
  self.send_lock_.unlock();
  return 0;
}

}  // namespace weft::verbs
