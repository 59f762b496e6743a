// SPDX-License-Identifier: BSD-2-Clause
// The send side of a queue pair: what is posted, in which order it completes, and how it ends. Connected endpoints and
// datagram endpoints own one each. send_path.h has the inlined part of posting. ibv_post_send(3).
//
// Owner: an endpoint, whose engine's mutex guards the calls about its life. lock() guards posting, and comes before
// channels' locks; completions are handled under their channel's lock.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>

#include "base/light_lock.h"
#include "base/list.h"
#include "base/status.h"
#include "verbs/transfer/completion_channel.h"
#include "verbs/transfer/completion_routes.h"
#include "verbs/transfer/send_work.h"
#include "verbs/transfer/transfer_sizes.h"
#include "verbs/transfer/work_queue.h"

namespace weft::verbs {

struct CompletionSink;

class SendQueue final : public ListHook<SendQueue> {
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

  // The validation that needs no queue state.
  ssize_t check(const SendWork& work) const noexcept;
  // Buffers of a call.
  std::size_t iov_limit() const noexcept { return sizes_.transmit_iov; }
  // Posts any transmission, after check(). With the lock held.
  ssize_t post_locked(const SendWork& work) noexcept;
  // check() and post_locked().
  ssize_t post(const SendWork& work) noexcept;
  // A write, and a read of no bytes behind it: completes when the peer's device has executed the write.
  ssize_t post_delivered_write(const SendWork& work) noexcept;

  // Calls without flags for one buffer go straight to the device if may_go(), if the lock is free and while is_clear().
  // may_go() is the short form of check(), for data that travels inside the work request or has a descriptor.
  bool may_be_long(const void* buf, size_t len, const void* desc) const noexcept;
  bool may_go(const void* buf, size_t len, const void* desc) const noexcept;
  bool is_clear() const noexcept { return ring_.is_clear(); }
  // The part of the work request that belongs to the opcode: the remote range of a read or write, or the destination of
  // a datagram.
  [[gnu::always_inline]] void set_remote(uint64_t address, uint64_t key) noexcept {
    straight_.request.wr.rdma = {address, static_cast<uint32_t>(key)};
  }
  [[gnu::always_inline]] void set_destination(const Destination& to) noexcept {
    straight_.request.wr.ud = {to.handle, to.qp_number, to.qkey};
  }
  // Returns an errno or 0 for end_straight(), which releases the lock. Callers reload() their object between the two.
  int post_straight(const void* buf, size_t len, const void* desc, ibv_wr_opcode opcode, uint32_t kind, void* context,
                    bool silent) noexcept;
  ssize_t end_straight(int error, bool silent) noexcept;
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
  // is_clear() requires `allowed`: no counter, and no special default flags.
  struct StraightSend {
    ibv_send_wr request{};
    ibv_sge piece{};
    std::uint32_t report = 0;  // in Posted::flags, where a completion is wanted
    bool allowed = false;
  };

  // The record of the next work request. Null: on_no_room() has the reason.
  Posted* next_record() noexcept {
    Posted* const slot = ring_.next();
    return slot != nullptr ? slot : first_record();
  }
  Posted* first_record() noexcept;
  ssize_t on_no_room() noexcept;
  // Writes the record of a work request; returns its send_flags.
  unsigned fill(Posted& slot, const SendWork& work) const noexcept;
  ssize_t post_in_chain(const SendWork& work) noexcept;
  void flush_chain() noexcept;
  void flush_staged() noexcept;
  bool post_own(Posted::Role role, ibv_wr_opcode opcode) noexcept;  // posts own_ without data
  void on_failed(Posted& slot, ibv_wc_status status, CompletionSink& sink) noexcept;

  CompletionRoutes& routes_;
  const TransferSizes& sizes_;
  const std::uint32_t inline_bytes_;
  const uint64_t longest_message_;  // bytes
  uint64_t flags_;
  // Derived from the bindings, as flags of Posted: reported without a request, reported on request, and the kinds of
  // operations that are counted.
  std::uint32_t always_report_ = 0;
  std::uint32_t may_report_ = 0;
  std::uint32_t counted_kinds_ = 0;
  LightLock lock_;
  ibv_qp* qp_ = nullptr;
  SendRing ring_;
  StraightSend straight_;
  int refusal_ = -FI_EAGAIN;  // while the ring is closed
  std::unique_ptr<SendChain> chain_;
  unsigned reserved_ = 0;  // in the channel's device queue
  // The provider's own work request, the marker or, before it, probes; it has room of its own in the queue pair.
  Posted own_;
  bool marker_tried_ = false;
  bool marker_posted_ = false;
  std::atomic<bool> marker_seen_{false};
  std::atomic<bool> probing_{false};
  bool probe_reserved_ = false;          // its entry in the channel's device queue
  std::uint32_t position_at_probe_ = 0;  // at the last call of probe()
};

}  // namespace weft::verbs
