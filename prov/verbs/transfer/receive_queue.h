// SPDX-License-Identifier: BSD-2-Clause
// The receive side of a connected endpoint: receives of its queue pair, or the shared context that it draws from.
// Receives that are posted before the queue pair exists are kept. fi_msg(3), ibv_post_recv(3).
//
// Owner: an endpoint, whose engine's mutex guards the calls about its life.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "base/ref.h"
#include "base/status.h"
#include "verbs/transfer/completion_routes.h"
#include "verbs/transfer/posted_receives.h"
#include "verbs/transfer/shared_receive.h"
#include "verbs/transfer/transfer_sizes.h"

namespace weft::verbs {

// A receive that was posted before the queue pair existed; rdma_cm creates it when the device's port is known.
struct KeptReceive {
  ReceiveWork work;
  std::unique_ptr<ibv_sge[]> sges;
};

struct QueuePairReceives {
  static constexpr bool kManyCompleters = false;
  bool is_open() const noexcept { return qp != nullptr; }
  int post(ibv_recv_wr* request) const noexcept {
    ibv_recv_wr* bad;
    return ibv_post_recv(qp, request, &bad);
  }
  ibv_qp* qp = nullptr;
};

class ReceiveQueue final : public PostedReceives<QueuePairReceives> {
 public:
  // `sizes` change until the queue is enabled. `flags`: of calls without flags (rx_attr->op_flags).
  ReceiveQueue(CompletionRoutes& routes, const TransferSizes& sizes, const ibv_sge& spill, uint64_t flags) noexcept;

  // ---- Life, with the engine's mutex held ----

  void share(SharedReceive& shared) noexcept { shared_ = Ref<SharedReceive>(shared); }
  SharedReceive* shared() const noexcept { return shared_.get(); }
  // The bindings are complete, except for counters. A failure leaves entries reserved, for release() or another try.
  Status enable() noexcept;
  // Counts messages as the bindings say, also those for receives that are posted already. With the channel's lock held,
  // then this queue's.
  void follow_bindings() noexcept;
  // The queue pair accepts receives (INIT or later): posts the kept ones. The caller keeps ownership.
  Status use(ibv_qp& qp) noexcept;
  // Accepts no more receives, and cancels the kept ones. Idempotent.
  void stop() noexcept;
  // The device has no posted receives of this queue. After stop().
  bool idle() noexcept;
  // The queue pair has been destroyed, or is about to be.
  void detach() noexcept;
  // No more work completions can arrive: cancels the receives that had none.
  void cancel_left() noexcept;
  // Gives the entries in the device's completion queue back. Idempotent.
  void release() noexcept;

  // ---- Posting ----

  void choose_way() noexcept;  // follows a change of flags(), with the lock held
  ssize_t post_list(const iovec* iov, void* const* desc, size_t count, void* context, uint64_t flags) noexcept;

  // Slots of fi_ops_ep.
  ssize_t cancel(void* context) noexcept;
  ssize_t rx_size_left() noexcept;

  // ---- Completions, with the channel's lock held ----

  CompletionRoutes& routes() noexcept { return routes_; }
  // Receives of a shared context are reported here without a request, and not counted.
  bool is_plain() const noexcept { return plain_; }

 private:
  // Room for the receives, made with the first post. Without locks. Succeeds without effect if the queue has stopped.
  Status prepare() noexcept;
  ssize_t post(ReceiveWork& work) noexcept;
  ssize_t keep(const ReceiveWork& work) noexcept;
  std::size_t kept_count() const noexcept { return kept_ != nullptr ? kept_->size() : 0; }
  std::vector<KeptReceive> take_kept() noexcept;
  void post_kept() noexcept;  // with the lock held
  // The flags of Posted for a receive with these operation flags.
  uint32_t record_flags(uint64_t flags) const noexcept;
  void report_cancelled(void* context, uint64_t flags) noexcept;

  unsigned reserved_ = 0;  // in the channel's device queue
  CompletionRoutes& routes_;
  const TransferSizes& sizes_;
  Ref<SharedReceive> shared_;
  std::unique_ptr<std::vector<KeptReceive>> kept_;
  std::uint32_t qp_number_ = 0;
  bool plain_ = false;
};

}  // namespace weft::verbs
