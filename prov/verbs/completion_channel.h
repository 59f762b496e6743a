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

#include <atomic>
#include <memory>
#include <mutex>

#include "base/list.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/completion_queue.h"
#include "verbs/verbs_handles.h"

namespace weft::verbs {

class Domain;
class TransferEndpoint;

// Owner: its completion queue (release()), or the domain for the one that serves endpoints without queues.
// Thread-safe. Meets ProgressEngine.
class CompletionChannel {
 public:
  // `attr` may be null: no application reads it. -FI_EINVAL for a signalling vector that the device does not have.
  static Result<std::unique_ptr<CompletionChannel>> open(Domain& domain, const fi_cq_attr* attr);
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  ibv_cq* cq() const noexcept { return cq_.get(); }
  void serve(CompletionQueueCore* queue) noexcept { queue_ = queue; }
  CompletionQueueCore* queue() const noexcept { return queue_; }

  // The device queue never holds less than what is posted: endpoints say how many work completions they may have
  // outstanding, and it grows. -FI_ENOSPC when the device cannot hold as many.
  Status reserve(unsigned entries) noexcept;
  void give_back(unsigned entries) noexcept;

  // Meets ProgressEngine.
  void drive() noexcept;
  bool prepare_wait() noexcept;
  int wait_fd() const noexcept { return wait_fd_; }

  // The fast path of reading: fills `buf` from the device when nothing older waits in the queue. As fi_cq_read.
  ssize_t read_into(CompletionQueueCore& queue, void* buf, size_t count) noexcept;
  // The completion queue is gone.
  void release() noexcept { delete this; }

  // Chains of work requests that wait for the next one (FI_MORE) leave with the next progress at the latest.
  void stage(TransferEndpoint& endpoint) noexcept;
  void unstage(TransferEndpoint& endpoint) noexcept;

  // Empties the device queue; for endpoints that end.
  void poll_all() noexcept;

 private:
  struct Sink;
  explicit CompletionChannel(Domain& domain) noexcept;
  Status create(const fi_cq_attr* attr) noexcept;
  size_t poll_locked(Sink& sink, size_t limit) noexcept;
  void flush_staged() noexcept;

  Domain& domain_;
  CompletionQueueCore* queue_ = nullptr;
  int wait_fd_ = -1;
  CompletionChannelHandle channel_;
  UniqueFd epoll_;
  CompletionQueueHandle cq_;
  Mutex mutex_;
  unsigned reserved_ = 0;  // under mutex_
  unsigned events_ = 0;    // not yet acknowledged; under mutex_
  std::atomic<unsigned> staged_count_{0};
  Mutex staged_mutex_;  // before an endpoint's lock for sends, which is only tried under it
  List<TransferEndpoint, CompletionChannel> staged_;
};

}  // namespace weft::verbs
