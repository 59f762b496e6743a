// SPDX-License-Identifier: BSD-2-Clause
// Counters of finished and of failed operations; fi_cntr(3) governs. Both values are atomics: counting is one addition
// and, unless a waiter is armed, no system call.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <memory>

#include "abi/ops.h"
#include "base/deadline.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/progress.h"
#include "objects/wait_object.h"
#include "objects/wait_set.h"

namespace weft {

class CounterCore;
class DeferredWork;

// Gets the changes of counters; objects/deferred_work.h. Called by any thread, which may hold an engine's mutex.
class CounterWatch {
 public:
  virtual void on_change(const CounterCore& counter) noexcept = 0;

 protected:
  ~CounterWatch() = default;
};

// One of a counter's two numbers.
struct CounterValue {
  std::atomic<uint64_t> now{0};
  std::atomic<uint64_t> reported{0};  // the value that the application read last

  // The application makes the change, so it counts as reported.
  void add(uint64_t count) noexcept {
    reported.fetch_add(count);
    now.fetch_add(count);
  }
  void set(uint64_t to) noexcept {
    now.store(to);
    reported.store(to);
  }

  bool is_unreported() const noexcept { return now.load() != reported.load(); }
  uint64_t report() noexcept {
    const uint64_t value = now.load();
    reported.store(value);
    return value;
  }
};

// The part that does not depend on the engine; endpoints and memory regions hold a Ref to it. Thread-safe.
class CounterCore : public RefCounted {
 public:
  // Any thread, also under an engine's lock.
  void add(uint64_t count) noexcept {
    value_.now.fetch_add(count);
    changed();
  }
  void add_error() noexcept {
    errors_.now.fetch_add(1);
    changed();
  }

  uint64_t value() const noexcept { return value_.now.load(); }
  uint64_t errors() const noexcept { return errors_.now.load(); }
  // A value changed since the application last read it, or called fi_cntr_add or fi_cntr_set itself; fi_poll(3). Errors
  // that the application adds itself count as a change all the same.
  bool ready() const noexcept { return errors_assigned_.load() || value_.is_unreported() || errors_.is_unreported(); }
  // As ready(), with changes by fi_cntr_add and fi_cntr_set too: another thread may have made them, so no thread sleeps
  // before the application has read the counter.
  bool has_unread_change() const noexcept { return assigned_.load() || ready(); }
  void mark_seen() noexcept {
    if (assigned_.load()) assigned_.store(false);
  }
  void mark_reported() noexcept {
    assigned_.store(false);
    errors_assigned_.store(false);
    value_.report();
    errors_.report();
  }

  // Sets the value for deferred work (FI_OP_CNTR_SET): unlike fi_cntr_set, a change that the application has not read.
  void store(uint64_t to) noexcept {
    value_.now.store(to);
    changed();
  }

  // From now on `watch`, which outlives this, is called for changes if the sum of the values is at least `from`.
  void watch(CounterWatch& watch, uint64_t from) noexcept {
    watched_from_.store(from);
    watch_.store(&watch);
  }
  uint64_t watched_from() const noexcept { return watched_from_.load(); }

  WaitObject& wait_object() noexcept { return wait_; }

 protected:
  explicit CounterCore(Ref<RefCounted> parent) noexcept : parent_(std::move(parent)) {}
  ~CounterCore() = default;
  static Status check(const fi_cntr_attr* attr, bool locking) {
    if (attr == nullptr) return Status(-FI_EINVAL);
    if (attr->flags != 0) return Status(-FI_EBADFLAGS);
    if (attr->events != FI_CNTR_EVENTS_COMP) return Status(-FI_ENOSYS);
    return Status(attr->wait_obj == FI_WAIT_MUTEX_COND && !locking ? -FI_ENOSYS : 0);
  }

  // By the application. The mark comes last, so that a thread that has read an earlier value finds it.
  void changed(std::atomic<bool>& mark) noexcept {
    mark.store(true);
    changed();
  }
  void changed() noexcept {
    wait_.signal();
    if (CounterWatch* const watch = watch_.load(); watch != nullptr) watch->on_change(*this);
  }

  std::atomic<bool> assigned_{false};         // by fi_cntr_add or fi_cntr_set, not read yet
  std::atomic<bool> errors_assigned_{false};  // by fi_cntr_adderr or fi_cntr_seterr, not reported yet
  WaitObject wait_;
  CounterValue value_;
  CounterValue errors_;
  std::atomic<CounterWatch*> watch_{nullptr};
  std::atomic<uint64_t> watched_from_{UINT64_MAX};

 private:
  const Ref<RefCounted> parent_;
};

// Owner: its C handle; close answers -FI_EBUSY while endpoints or memory regions use it.
template <class E>
class Counter final : public Object<fid_cntr>, public CounterCore {
 public:
  // `parent` is the domain. `locking`: see CompletionQueue; it only decides whether FI_WAIT_MUTEX_COND is possible.
  static Result<Counter*> open(Ref<RefCounted> parent, const fi_cntr_attr* attr, E& engine, bool locking,
                               void* context) {
    static_assert(ProgressEngine<E>);
    if (Status status = check(attr, locking); !status.ok()) return failure(status);
    auto counter = std::unique_ptr<Counter>(new Counter(std::move(parent), engine, context));
    if (Status status = counter->open_wait_object(*attr); !status.ok()) return failure(status);
    return counter.release();
  }
  ~Counter() {
    if constexpr (requires { engine_.on_closed(nullptr); }) engine_.on_closed(nullptr);
  }
  static Counter* from(const ::fid* fid) noexcept { return object_if<Counter>(fid); }
  // As from(), only for a counter of the domain that has this deferred work.
  static CounterCore* in_domain(const ::fid* fid, const DeferredWork& domain) noexcept {
    Counter* const counter = from(fid);
    return counter != nullptr && &counter->engine_.deferred() == &domain ? counter : nullptr;
  }

  E& engine() noexcept { return engine_; }

  // For poll sets, wait sets and fi_trywait.
  void drive() noexcept { make_progress(engine_); }
  bool prepare_wait() noexcept { return may_sleep(engine_); }
  bool must_not_sleep() noexcept { return has_unread_change(); }
  int trywait() noexcept { return wait_.trywait(*this); }

  // Slots of fi_ops.
  int close() {
    if constexpr (requires { engine_.deferred(); })
      if (in_use()) engine_.deferred().settle();
    if (in_use()) return -FI_EBUSY;
    wait_.stop_driver();
    wait_.detach_from(engine_);
    delete this;
    return 0;
  }
  int control(int command, void* arg) noexcept {
    const int result = wait_.control(command, arg);
    if (command == FI_GETWAIT && result == 0) expect_sleepers(engine_);
    return result;
  }

  // Slots of fi_ops_cntr.
  uint64_t read() noexcept {
    mark_seen();
    return report(value_);
  }
  uint64_t readerr() noexcept {
    errors_assigned_.store(false);
    return report(errors_);
  }
  int add(uint64_t count) noexcept {
    value_.add(count);
    changed(assigned_);
    return 0;
  }
  int adderr(uint64_t count) noexcept {
    errors_.add(count);
    changed(errors_assigned_);
    return 0;
  }
  int set(uint64_t to) noexcept {
    value_.set(to);
    changed(assigned_);
    return 0;
  }
  int seterr(uint64_t to) noexcept {
    errors_.set(to);
    changed(errors_assigned_);
    return 0;
  }
  int wait(uint64_t threshold, int timeout_ms) {
    const uint64_t reported = errors_.reported.load();  // an error from before the call ends the wait too
    const auto ended = [&]() noexcept { return value() >= threshold || errors() != reported; };
    Status waited;
    if (value() < threshold) waited = membership_.wait(wait_, Deadline::in_ms(timeout_ms), *this, ended);
    mark_seen();
    if (const uint64_t now = value(); now >= threshold) {
      value_.reported.store(now);
      return 0;
    }
    const uint64_t failed = errors();
    errors_.reported.store(failed);
    if (failed != reported) return -FI_EAVAIL;
    return waited.ok() ? -FI_ETIMEDOUT : waited.code();  // another thread changed the counter back
  }

 private:
  Counter(Ref<RefCounted> parent, E& engine, void* context) : CounterCore(std::move(parent)), engine_(engine) {
    identify<Counter>(abi, FI_CLASS_CNTR, context);
    if constexpr (requires { engine.on_opened(nullptr); }) engine.on_opened(nullptr);
  }
  Status open_wait_object(const fi_cntr_attr& attr) {
    if (Status status = membership_.open(wait_, attr.wait_obj, attr.wait_set, wait_member(*this)); !status.ok())
      return status;
    if (Status status = wait_.attach_to(engine_); !status.ok()) return status;
    if (attr.wait_obj == FI_WAIT_SET) expect_sleepers(engine_);
    return wait_.start_driver(*this);
  }
  // A value that changed since it was last reported is returned at once; otherwise a caller that polls makes progress.
  uint64_t report(CounterValue& value) noexcept {
    if (!value.is_unreported()) drive();
    return value.report();
  }

  E& engine_;
  WaitMembership membership_;
};

}  // namespace weft
