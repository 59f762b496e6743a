// SPDX-License-Identifier: BSD-2-Clause
// Operations that wait for a counter: the deferred work of a domain, and calls with FI_TRIGGER; fi_trigger(3).
//
// An operation starts through the tables of its endpoint, as if the application made the call at that time. So a
// provider has little to do: its endpoints call drop() when they close, and their tables have the slots of
// objects/triggers.h. The code that drives the engine calls run() after each round of progress.
#pragma once

#include <rdma/fi_trigger.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "objects/counter.h"

namespace weft {

// A data transfer that is submitted now and called later: a copy of the arguments of one of the calls that end in
// `msg`; struct fi_op_msg and its siblings. The buffers stay the application's.
class DeferredOperation {
 public:
  DeferredOperation() noexcept = default;
  // Descriptors of atomic operands and results are dropped: no provider with deferred work uses them.
  template <class Message>
  DeferredOperation(fid_ep* ep, fi_op_type type, const Message& message, uint64_t flags, const fi_msg_fetch& fetch = {},
                    const fi_msg_compare& compare = {})
      : ep_(ep), type_(type), flags_(flags), context_(message.context), peer_(message.addr), data_(message.data) {
    if constexpr (requires { message.datatype; }) {
      datatype_ = message.datatype;
      operation_ = message.op;
      copy(operands_, message.msg_iov, message.iov_count);
      copy(targets_, message.rma_iov, message.rma_iov_count);
      copy(results_, fetch.msg_iov, fetch.iov_count);
      copy(compares_, compare.msg_iov, compare.iov_count);
    } else {
      copy(buffers_, message.msg_iov, message.iov_count);
      copy(descriptors_, message.desc, message.iov_count);
    }
    if constexpr (requires { message.tag; }) {
      tag_ = message.tag;
      ignore_ = message.ignore;
    }
    if constexpr (std::is_same_v<Message, fi_msg_rma>) copy(ranges_, message.rma_iov, message.rma_iov_count);
  }

  fid_ep* ep() const noexcept { return ep_; }
  uint64_t flags() const noexcept { return flags_; }
  uint64_t tag() const noexcept { return tag_; }
  // The application's context.
  void* context() const noexcept { return context_; }

  bool receives() const noexcept { return type_ == FI_OP_RECV || type_ == FI_OP_TRECV; }
  // FI_SEND and so on, as in completions.
  uint64_t completion_flags() const noexcept;

  // Makes the call and returns its result.
  ssize_t start(void* context) noexcept;

 private:
  template <class T>
  static void copy(std::vector<T>& to, const T* from, size_t count) {
    if (from != nullptr && count != 0) to.assign(from, from + count);
  }
  ssize_t start_atomic(void* context) noexcept;

  fid_ep* ep_ = nullptr;
  fi_op_type type_ = FI_OP_SEND;
  uint64_t flags_ = 0;
  void* context_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  uint64_t tag_ = 0;
  uint64_t ignore_ = 0;
  uint64_t data_ = 0;
  fi_datatype datatype_ = FI_INT8;
  fi_op operation_ = FI_MIN;
  std::vector<iovec> buffers_;
  std::vector<void*> descriptors_;
  std::vector<fi_rma_iov> ranges_;
  std::vector<fi_ioc> operands_, compares_, results_;
  std::vector<fi_rma_ioc> targets_;
};

struct CompletionRoutes;

// Owner: the engine of the domain. Thread-safe. Lock order: the engine's mutex, then the one here, then those of queues
// and counters; run(), control(), post() and drop() are called without the engine's mutex.
class DeferredWork final : private CounterWatch {
 public:
  // How a provider's handles become objects; null for handles of others, or a counter of another domain.
  struct Handles {
    CounterCore* (*counter)(const ::fid*, const DeferredWork& domain) = nullptr;
    CompletionRoutes* (*routes)(const ::fid*) = nullptr;  // the routes of an endpoint or of one of its contexts
  };

  // `wake`: an event that wakes the thread that makes progress. `engine`: the mutex that guards bindings.
  DeferredWork(bool locking, const UniqueFd& wake, Mutex& engine) noexcept;
  ~DeferredWork();
  void set_handles(const Handles& handles) noexcept { handles_ = handles; }
  // See EngineBase::expect_others().
  void start_locking() noexcept { mutex_.enable(); }

  // FI_QUEUE_WORK; FI_CANCEL_WORK, which answers -FI_ENOENT for unknown or completed work, -FI_EBUSY for a transfer
  // that has started, but cancels a receive; FI_FLUSH_WORK, whose argument is null or the triggering counter.
  int control(int command, void* argument);
  static constexpr bool is_command(int command) noexcept {
    return command == FI_QUEUE_WORK || command == FI_CANCEL_WORK || command == FI_FLUSH_WORK;
  }

  // A call with FI_TRIGGER; its context is a fi_triggered_context.
  ssize_t post(DeferredOperation&& operation) noexcept;

  // fi_cancel: false if no operation of the endpoint waits with this context.
  bool cancel(const fid_ep& ep, const void* context) noexcept;
  // The endpoint closes: operations posted to it are cancelled, work queued for it is dropped.
  void drop(const fid_ep& ep) noexcept;

  // Starts the operations that are due.
  void run() noexcept {
    if (due()) run_due();
  }
  bool due() const noexcept { return due_.load(std::memory_order_acquire); }

  // Waits until work that was reported as complete uses its counters no more: they may be closed then.
  void settle() noexcept {
    for (;; std::this_thread::yield()) {
      Lock lock(mutex_);
      if (!running_) return;
    }
  }

  // For each completion while deferred work is under way: if the operation is deferred work, replaces its context and
  // counter, and decides whether it is reported.
  bool any_started() const noexcept { return started_.load(std::memory_order_acquire) != 0; }
  void redirect(void*& context, bool& report, CounterCore*& counter, bool failed) noexcept;

 private:
  struct Job;
  using Jobs = std::unordered_map<const void*, std::unique_ptr<Job>>;
  // By counter and threshold, then in the order of submission.
  using Waiting = std::multimap<std::pair<CounterCore*, uint64_t>, Job*>;

  void on_change(const CounterCore& counter) noexcept override;
  CounterCore* counter_of(const fid_cntr* counter) const noexcept {
    return counter != nullptr ? handles_.counter(&counter->fid, *this) : nullptr;
  }
  Status prepare(const fi_deferred_work& work, Job& job) const;
  Status prepare_transfer(const fi_deferred_work& work, Job& job) const;
  int queue(fi_deferred_work& work);
  void add(std::unique_ptr<Job> job);
  int cancel(const fi_deferred_work& work);
  int flush(void* counter) noexcept;
  Job* find(const fi_deferred_work& work) const noexcept;
  void rearm(CounterCore& counter) noexcept;
  Waiting::node_type stop_waiting(Job& job) noexcept;
  std::unique_ptr<Job> take_out(Job& job) noexcept;
  Job* next_due(const fid_ep* full) noexcept;
  void run_due() noexcept;
  bool start(Job& job) noexcept;
  void report_failure(Job& job, int error) noexcept;
  template <class Wanted>
  std::unique_ptr<Job> first_of(Wanted wanted) noexcept;
  template <class Wanted>
  std::unique_ptr<Job> take_first(Wanted wanted) noexcept;

  const UniqueFd& wake_;
  Mutex& engine_;
  Handles handles_;
  std::atomic<bool> due_{false};
  std::atomic<unsigned> started_{0};  // deferred work that has not completed
  std::atomic<unsigned> count_{0};    // size of jobs_
  Mutex mutex_;                       // guards the rest
  bool running_ = false;
  const Job* starting_ = nullptr;
  const fid_ep* starting_at_ = nullptr;   // its endpoint is being called
  std::unique_ptr<Job> completed_early_;  // the job being started, if it has completed already
  Jobs jobs_;                             // all
  Waiting waiting_;                       // jobs that have not started
};

}  // namespace weft
