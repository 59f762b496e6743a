// SPDX-License-Identifier: BSD-2-Clause
// Operations that wait for a counter; see deferred_work.h.
#include "objects/deferred_work.h"

#include <rdma/fi_errno.h>

#include <iterator>
#include <thread>
#include <utility>

#include "base/readiness.h"
#include "objects/completion_routes.h"
#include "objects/endpoint_alias.h"

namespace weft {
uint64_t DeferredOperation::completion_flags() const noexcept {
  static constexpr uint64_t kFlags[] = {FI_RECV | FI_MSG,     FI_SEND | FI_MSG,    FI_RECV | FI_TAGGED,
                                        FI_SEND | FI_TAGGED,  FI_READ | FI_RMA,    FI_WRITE | FI_RMA,
                                        FI_WRITE | FI_ATOMIC, FI_READ | FI_ATOMIC, FI_READ | FI_ATOMIC};
  static_assert(std::size(kFlags) == FI_OP_COMPARE_ATOMIC + 1 && FI_OP_RECV == 0 && FI_OP_TSEND == 3 &&
                FI_OP_ATOMIC == 6);
  return kFlags[type_];
}

ssize_t DeferredOperation::start(void* context) noexcept {
  void** const desc = descriptors_.empty() ? nullptr : descriptors_.data();
  const fi_msg message{buffers_.data(), desc, buffers_.size(), peer_, context, data_};
  const fi_msg_tagged tagged{buffers_.data(), desc, buffers_.size(), peer_, tag_, ignore_, context, data_};
  const fi_msg_rma access{buffers_.data(), desc,           buffers_.size(), peer_,
                          ranges_.data(),  ranges_.size(), context,         data_};
  switch (type_) {
    case FI_OP_RECV:
      return fi_recvmsg(ep_, &message, flags_);
    case FI_OP_SEND:
      return fi_sendmsg(ep_, &message, flags_);
    case FI_OP_TRECV:
      return fi_trecvmsg(ep_, &tagged, flags_);
    case FI_OP_TSEND:
      return fi_tsendmsg(ep_, &tagged, flags_);
    case FI_OP_READ:
      return fi_readmsg(ep_, &access, flags_);
    case FI_OP_WRITE:
      return fi_writemsg(ep_, &access, flags_);
    default:
      return start_atomic(context);
  }
}

ssize_t DeferredOperation::start_atomic(void* context) noexcept {
  const fi_msg_atomic message{operands_.data(), nullptr,   operands_.size(), peer_,   targets_.data(),
                              targets_.size(),  datatype_, operation_,       context, data_};
  switch (type_) {
    case FI_OP_ATOMIC:
      return fi_atomicmsg(ep_, &message, flags_);
    case FI_OP_FETCH_ATOMIC:
      return fi_fetch_atomicmsg(ep_, &message, results_.data(), nullptr, results_.size(), flags_);
    case FI_OP_COMPARE_ATOMIC:
      return fi_compare_atomicmsg(ep_, &message, compares_.data(), nullptr, compares_.size(), results_.data(), nullptr,
                                  results_.size(), flags_);
    default:
      return -FI_ENOSYS;
  }
}

namespace {

// Receives that have more than one completion, or that return their result at once.
constexpr uint64_t kManyResults = FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD;

}  // namespace

// An operation that waits. Owner: jobs_, until it completes.
struct DeferredWork::Job {
  DeferredOperation operation;
  CompletionRoutes* routes = nullptr;      // where the operation completes; null: a counter is changed
  const fi_deferred_work* work = nullptr;  // null: posted with FI_TRIGGER
  Ref<CounterCore> trigger, completion, target;
  bool sets = false;  // sets `target` instead of adding to it
  uint64_t value = 0;
  uint64_t threshold = 0;
  bool started = false;

  bool needs_room_at(const fid_ep* full) const noexcept {
    return full != nullptr && routes != nullptr && operation.ep() == full && !operation.receives();
  }
  bool met() const noexcept { return trigger->value() + (work != nullptr ? trigger->errors() : 0) >= threshold; }
};

DeferredWork::DeferredWork(bool locking, const UniqueFd& wake, Mutex& engine) noexcept
    : wake_(wake), engine_(engine), mutex_(locking) {}

DeferredWork::~DeferredWork() = default;

// The thread that changes a counter may hold any lock, so nothing is started here.
void DeferredWork::on_change(const CounterCore& counter) noexcept {
  if (counter.value() + counter.errors() < counter.watched_from()) return;
  if (!due_.exchange(true)) net::event_signal(wake_.get());
}

// ---- Submission ----

int DeferredWork::control(int command, void* argument) {
  if (handles_.counter == nullptr) return -FI_ENOSYS;
  if (command == FI_FLUSH_WORK) return flush(argument);
  if (argument == nullptr) return -FI_EINVAL;
  auto& work = *static_cast<fi_deferred_work*>(argument);
  return command == FI_QUEUE_WORK ? queue(work) : cancel(work);
}

int DeferredWork::queue(fi_deferred_work& work) {
  auto job = std::make_unique<Job>();
  if (Status status = prepare(work, *job); !status.ok()) return status.code();
  void* const earlier = std::exchange(work.context.internal[0], job.get());
  try {
    add(std::move(job));
  } catch (...) {
    work.context.internal[0] = earlier;  // the work that is queued already, if any
    throw;
  }
  run();
  return 0;
}

Status DeferredWork::prepare(const fi_deferred_work& work, Job& job) const {
  CounterCore* const trigger = counter_of(work.triggering_cntr);
  if (trigger == nullptr) return Status(-FI_EINVAL);
  job.work = &work;
  job.trigger = Ref<CounterCore>(*trigger);
  job.threshold = work.threshold;
  if (work.op_type != FI_OP_CNTR_SET && work.op_type != FI_OP_CNTR_ADD) return prepare_transfer(work, job);
  if (work.completion_cntr != nullptr || work.op.cntr == nullptr) return Status(-FI_EINVAL);
  CounterCore* const target = counter_of(work.op.cntr->cntr);
  if (target == nullptr) return Status(-FI_EINVAL);
  job.target = Ref<CounterCore>(*target);
  job.sets = work.op_type == FI_OP_CNTR_SET;
  job.value = work.op.cntr->value;
  return Status();
}

Status DeferredWork::prepare_transfer(const fi_deferred_work& work, Job& job) const {
  if (work.completion_cntr != nullptr) {
    CounterCore* const completion = counter_of(work.completion_cntr);
    if (completion == nullptr) return Status(-FI_EINVAL);
    job.completion = Ref<CounterCore>(*completion);
  }
  if (work.op.msg == nullptr) return Status(-FI_EINVAL);
  // `flags` belong to the operation, also for an alias. FI_TRIGGER means that it is deferred, which it is.
  const auto copy = [&](const auto& op, const auto&... more) {
    job.operation = DeferredOperation(without_alias(op.ep), work.op_type, op.msg, op.flags & ~FI_TRIGGER, more...);
  };
  switch (work.op_type) {
    case FI_OP_RECV:
    case FI_OP_SEND:
      copy(*work.op.msg);
      break;
    case FI_OP_TRECV:
    case FI_OP_TSEND:
      copy(*work.op.tagged);
      break;
    case FI_OP_READ:
    case FI_OP_WRITE:
      copy(*work.op.rma);
      break;
    case FI_OP_ATOMIC:
      copy(*work.op.atomic);
      break;
    case FI_OP_FETCH_ATOMIC:
      copy(*work.op.fetch_atomic, work.op.fetch_atomic->fetch);
      break;
    case FI_OP_COMPARE_ATOMIC:
      copy(*work.op.compare_atomic, work.op.compare_atomic->fetch, work.op.compare_atomic->compare);
      break;
    default:
      return Status(-FI_ENOSYS);
  }
  const DeferredOperation& operation = job.operation;
  job.routes = operation.ep() != nullptr ? handles_.routes(&operation.ep()->fid) : nullptr;
  if (job.routes == nullptr) return Status(-FI_EINVAL);
  if (!job.routes->triggers) return Status(-FI_ENOSYS);  // opened without FI_TRIGGER
  if (job.routes->deferred != this) return Status(-FI_EDOMAIN);
  return Status(operation.receives() && (operation.flags() & kManyResults) != 0 ? -FI_ENOSYS : 0);
}

ssize_t DeferredWork::post(DeferredOperation&& operation) noexcept {
  const auto* condition = static_cast<const fi_triggered_context*>(operation.context());
  if (condition == nullptr) return -FI_EINVAL;
  if (condition->event_type != FI_TRIGGER_THRESHOLD) return -FI_ENOSYS;
  // An injected buffer may be reused at once, but a deferred operation reads it later.
  if ((operation.flags() & FI_INJECT) != 0) return -FI_EBADFLAGS;
  const fi_trigger_threshold& threshold = condition->trigger.threshold;
  CounterCore* const counter = counter_of(threshold.cntr);
  if (counter == nullptr) return -FI_EINVAL;
  try {
    auto job = std::make_unique<Job>();
    job->routes = handles_.routes(&operation.ep()->fid);
    job->operation = std::move(operation);
    job->trigger = Ref<CounterCore>(*counter);
    job->threshold = threshold.threshold;
    add(std::move(job));
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
  run();
  return 0;
}

void DeferredWork::add(std::unique_ptr<Job> added) {
  Lock lock(mutex_);
  Job& job = *added;
  CounterCore& counter = *job.trigger;
  const auto place = waiting_.emplace(std::pair(&counter, job.threshold), &job);
  try {
    jobs_.emplace(&job, std::move(added));
  } catch (...) {
    waiting_.erase(place);
    throw;
  }
  ++count_;
  rearm(counter);
  if (counter.value() + counter.errors() >= job.threshold) due_ = true;
}

// The counter reports its changes from the lowest threshold on.
void DeferredWork::rearm(CounterCore& counter) noexcept {
  const auto lowest = waiting_.lower_bound({&counter, 0});
  const bool any = lowest != waiting_.end() && lowest->first.first == &counter;
  counter.watch(*this, any ? lowest->first.second : UINT64_MAX);
}

// ---- Cancellation ----

DeferredWork::Job* DeferredWork::find(const fi_deferred_work& work) const noexcept {
  const auto found = jobs_.find(work.context.internal[0]);
  return found != jobs_.end() && found->second->work == &work ? found->second.get() : nullptr;
}

DeferredWork::Waiting::node_type DeferredWork::stop_waiting(Job& job) noexcept {
  auto [place, end] = waiting_.equal_range({job.trigger.get(), job.threshold});
  while (place->second != &job) ++place;
  auto node = waiting_.extract(place);
  rearm(*job.trigger);
  return node;
}

std::unique_ptr<DeferredWork::Job> DeferredWork::take_out(Job& job) noexcept {
  if (!job.started) stop_waiting(job);
  auto node = jobs_.extract(&job);
  --count_;
  return std::move(node.mapped());
}

// Takes out the first wanted job that has not started. With the mutex held.
template <class Wanted>
std::unique_ptr<DeferredWork::Job> DeferredWork::first_of(Wanted wanted) noexcept {
  for (auto& [context, job] : jobs_)
    if (!job->started && wanted(*job)) return take_out(*job);
  return nullptr;
}

template <class Wanted>
std::unique_ptr<DeferredWork::Job> DeferredWork::take_first(Wanted wanted) noexcept {
  if (count_ == 0) return nullptr;
  Lock lock(mutex_);
  return first_of(wanted);
}

int DeferredWork::cancel(const fi_deferred_work& work) {
  std::unique_ptr<Job> cancelled;
  fid_ep* receiver = nullptr;
  void* receive = nullptr;
  {
    Lock lock(mutex_);
    Job* job = find(work);
    if (job == nullptr) return -FI_ENOENT;
    if (!job->started) {
      cancelled = take_out(*job);
      return 0;
    }
    if (job->routes == nullptr || !job->operation.receives() || job == starting_) return -FI_EBUSY;
    receiver = job->operation.ep();
    receive = job;
  }
  return static_cast<int>(fi_cancel(&receiver->fid, receive));
}

int DeferredWork::flush(void* argument) noexcept {
  const CounterCore* counter = nullptr;
  if (argument != nullptr) {
    counter = counter_of(static_cast<const fid_cntr*>(argument));
    if (counter == nullptr) return -FI_EINVAL;
  }
  const auto meant = [counter](const Job& job) {
    return job.work != nullptr && (counter == nullptr || job.trigger.get() == counter);
  };
  while (take_first(meant) != nullptr) continue;
  return 0;
}

bool DeferredWork::cancel(const fid_ep& ep, const void* context) noexcept {
  const auto job = take_first([&](const Job& each) {
    return each.work == nullptr && each.operation.ep() == &ep && each.operation.context() == context;
  });
  if (job != nullptr) report_failure(*job, FI_ECANCELED);
  return job != nullptr;
}

void DeferredWork::drop(const fid_ep& ep) noexcept {
  for (;;) {
    std::unique_ptr<Job> job;
    bool called = false;  // by another thread, which may find no room and put the operation back
    {
      Lock lock(mutex_);
      called = starting_at_ == &ep;
      job = first_of([&ep](const Job& each) { return each.operation.ep() == &ep; });
    }
    if (job != nullptr && job->work == nullptr) report_failure(*job, FI_ECANCELED);
    if (job == nullptr && !called) return;
    if (job == nullptr) std::this_thread::yield();
  }
}

// ---- Start and completion ----

// `full`: an endpoint whose transmit queue has no room; null: none.
DeferredWork::Job* DeferredWork::next_due(const fid_ep* full) noexcept {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    CounterCore* const counter = it->first.first;
    const uint64_t reached = counter->value() + counter->errors();
    for (; it != waiting_.end() && it->first.first == counter && it->first.second <= reached; ++it)
      if (it->second->met() && !it->second->needs_room_at(full)) return it->second;
    it = waiting_.upper_bound({counter, UINT64_MAX});
  }
  return nullptr;
}

void DeferredWork::run_due() noexcept {
  UniqueLock lock(mutex_);
  if (running_) return;  // that thread starts what is due
  running_ = true;
  due_ = false;
  const fid_ep* full = nullptr;
  while (Job* job = next_due(full)) {
    auto place = stop_waiting(*job);
    job->started = true;
    starting_ = job;
    starting_at_ = job->operation.ep();
    if (job->work != nullptr && job->routes != nullptr) ++started_;
    lock.unlock();
    const bool done = start(*job);
    lock.lock();
    starting_ = nullptr;
    if (!done) {  // the job goes back to the front of its threshold
      job->started = false;
      if (job->work != nullptr) --started_;
      waiting_.insert(waiting_.lower_bound(place.key()), std::move(place));
      rearm(*job->trigger);
      due_ = true;
      if (std::exchange(full, job->operation.ep()) != nullptr || job->operation.receives()) break;
      continue;
    }
    if (completed_early_ != nullptr)
      completed_early_.reset();
    else if (job->work == nullptr || job->routes == nullptr)
      take_out(*job);
  }
  starting_at_ = nullptr;
  running_ = false;
}

// False: the endpoint has no room for it now.
bool DeferredWork::start(Job& job) noexcept {
  if (job.routes == nullptr) {
    if (job.sets)
      job.target->store(job.value);
    else
      job.target->add(job.value);
    return true;
  }
  const ssize_t result = job.operation.start(job.work != nullptr ? &job : job.operation.context());
  if (result == -FI_EAGAIN) return false;
  if (result < 0) report_failure(job, static_cast<int>(-result));
  return true;
}

void DeferredWork::report_failure(Job& job, int error) noexcept {
  const DeferredOperation& operation = job.operation;
  void* const context = job.work != nullptr ? &job : operation.context();
  if (!operation.receives()) return job.routes->transmit_failed(operation.completion_flags(), context, error, error);
  CompletionError failed;
  failed.context = context;
  failed.flags = operation.completion_flags();
  failed.tag = operation.tag();
  failed.err = failed.prov_errno = error;
  Lock lock(engine_);  // a shared context's routes change with its endpoints
  job.routes->receive_failed(failed);
}

// By default deferred work is counted by its own counter only, and reported nowhere else unless it fails.
void DeferredWork::redirect(void*& context, bool& report, CounterCore*& counter, bool failed) noexcept {
  Lock lock(mutex_);
  const auto found = jobs_.find(context);
  if (found == jobs_.end()) return;
  std::unique_ptr<Job> job = take_out(*found->second);
  --started_;
  context = job->operation.context();
  report = (job->operation.flags() & FI_COMPLETION) != 0;
  if (!report || counter == job->completion.get()) counter = nullptr;
  // The application may close the counters once it has read the count: see settle().
  if (job->completion) failed ? job->completion->add_error() : job->completion->add(1);
  if (job.get() == starting_) completed_early_ = std::move(job);
}

}  // namespace weft
