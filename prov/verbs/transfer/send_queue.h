// SPDX-License-Identifier: BSD-2-Clause
// The send side of a queue pair: the posted operations, the order of their completion, and their end. Connected
// endpoints and datagram endpoints own one each. ibv_post_send(3).
//
// Owner: an endpoint, whose engine's mutex guards the calls about its life. lock() guards posting, and comes before
// channels' locks; completions are handled under their channel's lock.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>

#include "base/data_path.h"
#include "base/deadline.h"
#include "base/light_lock.h"
#include "base/status.h"
#include "objects/transfer_calls.h"
#include "verbs/transfer/completion_channel.h"
#include "verbs/transfer/completion_routes.h"
#include "verbs/transfer/send_work.h"
#include "verbs/transfer/transfer_sizes.h"
#include "verbs/transfer/work_queue.h"

namespace weft::verbs {

class SendQueue final {
 public:
  // `sizes` change until the queue is enabled. `flags`: of calls without flags (tx_attr->op_flags).
  SendQueue(CompletionRoutes& routes, const TransferSizes& sizes, uint64_t flags) noexcept;

  // ---- Life, with the engine's mutex held ----

  // The bindings are complete, except for counters.
  void enable() noexcept;
  // Counts what is posted from now on as the bindings say. With the lock held.
  void follow_bindings() noexcept;
  // Allocates the records of outstanding operations, and their entries in the device's completion queue. The first post
  // does it, since most connections of a busy server are idle. -FI_ENOMEM; -FI_ENOSPC when the completion queue cannot
  // hold them. With the lock held.
  Status prepare() noexcept;
  // Null: the queue pair is about to be destroyed, or has been.
  void use(ibv_qp* qp) noexcept;
  // Accepts no more operations; staged ones are posted. Idempotent.
  void stop() noexcept;
  // The device has no posted operations. After stop().
  bool idle() noexcept;
  // After stop(): posts the marker, once.
  void mark_end() noexcept;
  bool marked() const noexcept { return marker_tried_; }
  // After mark_end(): every posted operation has completed.
  bool drained() noexcept;
  // No more work completions can arrive: cancels the operations that had none. With the lock held, or while no thread
  // posts.
  void cancel_left() noexcept;
  // Gives the entries in the device's completion queue back. Idempotent.
  void release() noexcept;

  // Called periodically while connected: if nothing was transmitted since the last call, posts a write of no bytes,
  // which the peer's device must acknowledge. The application does not see it; without an acknowledgement the owner's
  // on_transfer_failed() is called. true: a probe is outstanding, call again soon.
  bool probe() noexcept;

  // ---- Posting ----

  LightLock& lock() noexcept { return lock_; }
  uint64_t& flags() noexcept { return flags_; }  // with the lock held, choose_way() follows a change
  ssize_t room() noexcept;

  // The validation that needs no queue state; its errors come in the order of check_transmit().
  ssize_t check(const SendWork& work, uint64_t unsupported = kUnsupportedFlags) const noexcept;
  // Buffers of a call.
  std::size_t iov_limit() const noexcept { return sizes_.transmit_iov; }
  // Posts any transmission, after check(). With the lock held.
  ssize_t post_locked(const SendWork& work) noexcept;
  // check() and post_locked().
  ssize_t post(const SendWork& work) noexcept;
  // A send or a write of some bytes, and then a read of no bytes: the peer's device acknowledges bytes when it has
  // them, and answers the read when memory has them. FI_DELIVERY_COMPLETE, fi_cq(3).
  ssize_t post_delivered(const SendWork& work) noexcept;
  // A read into more buffers than the device's reads have.
  bool must_split(const SendWork& read) const noexcept { return read.count > sizes_.read_sges; }
  ssize_t post_split_read(const SendWork& work) noexcept;

  // Calls without flags for one buffer go straight to the device if may_be_inline() or may_be_long(), if the lock is
  // free and while is_clear(). The first two are the short form of check(), for data that travels inside the work
  // request (`inlined`) or has a descriptor.
  bool may_be_long(const void* buf, size_t len, const void* desc) const noexcept;
  bool may_be_inline(const void* buf, size_t len) const noexcept {
    return buf != nullptr && within(len, inline_bytes_);
  }
  bool is_clear() const noexcept { return ring_.is_clear(); }
  // Where every call requests a completion, is_clear() often fails only because the next signal is due. After true, a
  // message that is not posted must be given up.
  bool make_clear() noexcept {
    if (!is_clear() && straight_allowed_ && straight_signal_ != 0) ring_.clear(true);
    return is_clear();
  }
  void give_up() noexcept { ring_.require_signal(); }
  // The part of the work request that belongs to the opcode: the remote range of a read or write, or the destination of
  // a datagram.
  [[gnu::always_inline]] void set_remote(uint64_t address, uint64_t key) noexcept {
    straight_->request.wr.rdma = {address, static_cast<uint32_t>(key)};
  }
  [[gnu::always_inline]] void set_destination(const Destination& to) noexcept {
    straight_->request.wr.ud = {to.handle, to.qp_number, to.qkey};
  }
  // Returns an errno or 0 for end_straight(), which releases the lock. Callers reload() their object between the two.
  int post_straight(const void* buf, size_t len, const void* desc, ibv_wr_opcode opcode, uint32_t kind, void* context,
                    bool silent, bool inlined) noexcept;
  ssize_t end_straight(int error) noexcept;
  ssize_t refuse_straight(int error) noexcept;
  void choose_way() noexcept;

  // A position in the queue, and whether everything posted before it has completed. With the lock held.
  std::uint32_t position() const noexcept { return ring_.now(); }
  bool passed(std::uint32_t position) const noexcept { return ring_.passed(position); }

  // ---- Completions, with the channel's lock held ----

  void complete_through(const Posted& slot) noexcept { ring_.complete_through(slot); }
  void on_completed(Posted& slot, ibv_wc_status status, CompletionSink& sink) noexcept;
  // `slot`: the marker or a probe.
  void on_own_completed(const Posted& slot, ibv_wc_status status) noexcept;

  // Posts the staged chain. False: another thread is posting; its call, or the next progress, posts the chain.
  bool try_flush() noexcept;

 private:
  // The work request of a straight post, of which only the variable fields are written. prepare() allocates it.
  struct StraightSend {
    StraightSend() noexcept {
      request.sg_list = &piece;
      request.num_sge = 1;
    }
    ibv_send_wr request{};
    ibv_sge piece{};
  };

  // The record of the next work request. Null: on_no_room() has the reason.
  Posted* next_record() noexcept {
    Posted* const slot = ring_.next();
    return slot != nullptr ? slot : first_record();
  }
  Posted* first_record() noexcept;
  ssize_t on_no_room(uint64_t kind, void* context) noexcept;
  // ibv_post_send. Inline data goes in one buffer: irdma takes only the first one before rdma-core 44.
  static bool has_scattered_data(const ibv_send_wr& request) noexcept {
    return (request.send_flags & IBV_SEND_INLINE) != 0 && request.num_sge > 1;
  }
  int post_gathered(ibv_send_wr& first, ibv_send_wr** bad) noexcept;
  int post_requests(ibv_send_wr& first, ibv_send_wr** bad) noexcept {
    return has_scattered_data(first) ? post_gathered(first, bad) : ibv_post_send(qp_, &first, bad);
  }
  // Writes the record of a work request; returns its send_flags.
  unsigned fill(Posted& slot, const SendWork& work) const noexcept;
  ssize_t post_in_chain(const SendWork& work) noexcept;
  void flush_chain() noexcept;
  void flush_staged() noexcept;
  bool post_own(Posted::Role role, ibv_wr_opcode opcode) noexcept;  // posts own_ without data
  void on_failed(Posted& slot, ibv_wc_status status, CompletionSink& sink) noexcept;

  CompletionRoutes& routes_;
  const TransferSizes& sizes_;
  uint64_t flags_;
  const std::uint32_t inline_bytes_;
  // Derived from the bindings, as flags of Posted: reported without a request, reported on request, and the kinds of
  // operations that are counted.
  std::uint32_t always_report_ = 0;
  std::uint32_t may_report_ = 0;
  std::uint32_t counted_kinds_ = 0;
  LightLock lock_;
  int refusal_ = -FI_EAGAIN;  // while the ring is closed
  ibv_qp* qp_ = nullptr;
  SendRing ring_;
  std::unique_ptr<StraightSend> straight_;
  // Flags for a straight post that requests a completion: in Posted::flags, and in the work request.
  std::uint32_t straight_report_ = 0;
  unsigned straight_signal_ = 0;
  std::unique_ptr<SendChain> chain_;
  // The provider's own work request, the marker or, before it, probes; it has room of its own in the queue pair.
  Posted own_;
  unsigned reserved_ = 0;                // in the channel's device queue
  std::uint32_t position_at_probe_ = 0;  // at the last call of probe()
  bool straight_allowed_ = false;        // is_clear() requires it: no counter, and no special default flags
  bool marker_tried_ = false;
  Clock::time_point marker_limit_{};  // until then the marker is awaited even if nothing will be reported
  bool probe_reserved_ = false;       // its entry in the channel's device queue
  std::atomic<bool> marker_seen_{false};
  std::atomic<bool> probing_{false};
};

// The path of every transmission to the device is inline, so that the compiler can determine which kind of transmission
// a call makes and removes most of it.

[[gnu::always_inline]] inline ssize_t SendQueue::check(const SendWork& work, uint64_t unsupported) const noexcept {
  for (int i = 0; i < work.count; ++i)
    if (work.sges[i].addr == 0) [[unlikely]]
      return -FI_EINVAL;
  if ((work.flags & unsupported) != 0) [[unlikely]]
    return -FI_EBADFLAGS;
  if (work.len <= inline_bytes_ && carries_data(work.opcode)) [[likely]]
    return 0;
  if (work.len > sizes_.longest_message) return -FI_EMSGSIZE;
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
    return on_no_room(work.kind, work.context);
  ibv_send_wr wr;
  build(wr, work);
  wr.wr_id = reinterpret_cast<uintptr_t>(slot);
  wr.next = nullptr;
  wr.send_flags = fill(*slot, work);
  ibv_send_wr* bad;
  const int error = post_requests(wr, &bad);
  if (error != 0) [[unlikely]]
    return refused(error);
  ring_.push((wr.send_flags & IBV_SEND_SIGNALED) != 0);
  if (straight_allowed_ && !ring_.is_clear()) ring_.clear();
  return 0;
}

// Empty buffers do not qualify: some devices take a length of 0 for 2 GiB.
[[gnu::always_inline]] inline bool SendQueue::may_be_long(const void* buf, size_t len,
                                                          const void* desc) const noexcept {
  return buf != nullptr && lkey_of(desc) != 0 && within(len, sizes_.longest_message);
}

[[gnu::always_inline]] inline int SendQueue::post_straight(const void* buf, size_t len, const void* desc,
                                                           ibv_wr_opcode opcode, uint32_t kind, void* context,
                                                           bool silent, bool inlined) noexcept {
  Posted& slot = ring_.front();
  slot.context = context;
  slot.flags = kind | (silent ? 0 : straight_report_);
  const unsigned send_flags = (silent ? 0 : straight_signal_) | (inlined ? IBV_SEND_INLINE : 0);
  StraightSend& straight = *straight_;
  ibv_send_wr& wr = straight.request;
  straight.piece = {reinterpret_cast<uintptr_t>(buf), static_cast<uint32_t>(len), lkey_of(desc)};
  wr.wr_id = reinterpret_cast<uintptr_t>(&slot);
  wr.opcode = opcode;
  wr.send_flags = send_flags;
  ibv_send_wr* bad;
  return ibv_post_send(qp_, &wr, &bad);
}

[[gnu::always_inline]] inline ssize_t SendQueue::end_straight(int error) noexcept {
  if (error != 0) [[unlikely]]
    return refuse_straight(error);
  ring_.step();
  lock_.unlock();
  return 0;
}

}  // namespace weft::verbs
