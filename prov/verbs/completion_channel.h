// SPDX-License-Identifier: BSD-2-Clause
// One device completion queue (ibv_cq) and the channel of its interrupts: what a fi_cq(3) of this provider drives. Work
// completions are polled in batches and become entries of the queue, or go straight into a reader's buffer.
//
// Its lock guards polling: what is polled is written (to the queue, to counters, to the endpoints' work queues) before
// the lock is released, so the order of the device is the order the application sees. Under it come only an endpoint's
// lock for receives and the locks of queues and counters.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_domain.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "base/light_lock.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/completion_queue.h"
#include "verbs/verbs_handles.h"
#include "verbs/work_queue.h"

namespace weft::verbs {

class CmEngine;
class Domain;
class SharedReceive;
class TransferEndpoint;

// Owner: its completion queue (release()), or the domain for the one that serves endpoints without queues.
// Thread-safe. Meets ProgressEngine and ReadsDirectly.
class CompletionChannel {
 public:
  // `attr` may be null: no application reads it. -FI_EINVAL for a signalling vector that the device does not have.
  static Result<std::unique_ptr<CompletionChannel>> open(Domain& domain, const fi_cq_attr* attr);
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  Domain& domain() const noexcept { return domain_; }
  ibv_cq* cq() const noexcept { return cq_.get(); }
  // Where completions go from now on; null: nowhere, they are counted only.
  // (The thread of a wait set that the queue has joined may poll already.)
  void serve(CompletionQueueCore* queue) noexcept {
    LightGuard guard(lock_);
    queue_ = queue;
  }

  // The device queue holds what may be outstanding: whoever posts says how much that is, and it grows, up to what the
  // device has. Beyond that the application has to leave depth unused or read in time; else it hears of the overrun.
  // A shared context counts once, however many endpoints draw from it.
  Status reserve(unsigned entries) noexcept;
  void give_back(unsigned entries) noexcept;
  Status reserve(SharedReceive& shared) noexcept;
  void give_back(SharedReceive& shared) noexcept;

  // Whose completions of shared receives are: the endpoint of this queue pair.
  Status add_endpoint(std::uint32_t qp_number, TransferEndpoint& endpoint) noexcept;
  void remove_endpoint(std::uint32_t qp_number) noexcept;

  // Meets ProgressEngine. Driving drives connections as well, unless a thread does that.
  void drive() noexcept;
  bool prepare_wait() noexcept;
  // Of transfers; of connections too, where nobody else drives them.
  int wait_fd() const noexcept { return wait_fds_[0]; }
  std::span<const int> wait_fds() const noexcept { return {wait_fds_.data(), watches_connections_ ? size_t{2} : 1}; }

  // Meets ReadsDirectly. The fast path of reading: up to `count` entries from the device into `buf` when nothing older
  // waits in the queue.
  ssize_t read_into(CompletionQueueCore& queue, void* buf, size_t count, fi_addr_t* sources) noexcept;
  // The completion queue is gone.
  void release() noexcept { delete this; }

  // The device lost completions (IBV_EVENT_CQ_ERR). Any thread.
  void on_overrun() noexcept;

  // Transfers only: what is staged leaves, what has completed is written.
  void progress() noexcept;
  // Empties the device queue.
  void poll_all() noexcept;
  // Somebody lacks room in a work queue: polls, unless the application has fallen behind with reading.
  void make_room() noexcept;

  // Chains of work requests that wait for the next one (FI_MORE) leave with the next progress at the latest. Called
  // with the endpoint's lock for sends held.
  void stage(TransferEndpoint& endpoint) noexcept;
  void unstage(TransferEndpoint& endpoint) noexcept;

 private:
  struct Sink;
  struct Reading;
  CompletionChannel(Domain& domain, bool owned_by_queue) noexcept;
  Status create(const fi_cq_attr* attr);
  Status open_descriptors(const fi_cq_attr* attr);
  Status grow_locked(unsigned entries) noexcept;
  void poll_all_locked() noexcept;
  void flush_staged() noexcept;

  // work_completion.cc: what one work completion leads to.
  int poll_locked(Sink& sink) noexcept;
  template <Posted::Role kReceives>
  bool is_plain(const ibv_wc& wc, Posted& slot, void*& taker, size_t& len) noexcept;
  template <Posted::Role kReceives>
  ssize_t give_and_unlock(Reading& reading, const ibv_wc* next, int polled) noexcept;
  ssize_t give_rest_and_unlock(Reading& reading, const ibv_wc* next, int polled) noexcept;
  ssize_t progress_and_read(CompletionQueueCore& queue, void* buf, size_t count, fi_addr_t* sources) noexcept;
  ssize_t unlock_and_read(CompletionQueueCore& queue, void* buf, size_t count, fi_addr_t* sources) noexcept;
  void drive_connections() noexcept;
  void take(const ibv_wc& wc, Sink& sink) noexcept;
  void dispatch(const ibv_wc& wc, Posted& slot, Sink& sink) noexcept;
  void on_transmitted(Posted& slot, Sink& sink) noexcept;
  void on_transmit_failed(Posted& slot, ibv_wc_status status, Sink& sink) noexcept;
  void on_received(const ibv_wc& wc, Posted& slot, Sink& sink) noexcept;
  void on_receive_failed(const ibv_wc& wc, Posted& slot, Sink& sink) noexcept;
  void on_datagram(const ibv_wc& wc, Posted& slot, Sink& sink) noexcept;
  void free_receive(Posted& slot) noexcept;
  bool continue_multi(const ibv_wc& wc, Posted& slot, MultiReceive& multi) noexcept;
  TransferEndpoint* endpoint_of(const ibv_wc& wc, const Posted& slot) noexcept;

  Domain& domain_;
  const Ref<Domain> domain_ref_;   // unless the domain owns it
  CmEngine* cm_engine_ = nullptr;  // that readers of completions have to drive, too; null: a thread does
  CompletionQueueCore* queue_ = nullptr;
  bool watches_connections_ = false;
  std::array<int, 2> wait_fds_{-1, -1};  // of events_ and cm_engine_
  CompletionChannelHandle events_;
  CompletionQueueHandle cq_;

  LightLock lock_;  // guards cq_ and the rest up to staged_count_
  unsigned idle_reads_ = 1;
  unsigned reserved_ = 0;
  unsigned unacknowledged_ = 0;                          // events
  std::unordered_map<SharedReceive*, unsigned> shared_;  // endpoints that draw from it
  std::unordered_map<std::uint32_t, TransferEndpoint*> endpoints_;
  std::uint32_t last_sender_number_ = 0;     // of the queue pair whose message used up a shared receive
  TransferEndpoint* last_sender_ = nullptr;  // null: look it up

  std::atomic<unsigned> staged_count_{0};
  LightLock staged_lock_;  // after an endpoint's lock for sends, which is only tried under it
  List<TransferEndpoint, CompletionChannel> staged_;
};

}  // namespace weft::verbs
