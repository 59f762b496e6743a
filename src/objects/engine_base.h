// SPDX-License-Identifier: BSD-2-Clause
// The parts that progress engines of the software providers have in common: the mutex, the descriptor that sleepers
// poll, the event that wakes them, and a thread that makes progress without the application's calls; fi_domain(3),
// progress.
//
// Thread-safety: with the mutex held, unless a member's comment differs.
#pragma once

#include <pthread.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/readiness.h"
#include "base/ref.h"
#include "base/service_thread.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/deferred_work.h"
#include "objects/polling_turns.h"
#include "objects/wait_object.h"

namespace weft {

// The objects whose users the application serialises, so that they need no locks; fi_domain(3), threading.
enum class Turns : std::uint8_t { kNone, kCompletion, kDomain };

inline Turns turns_of(const fi_domain_attr& attr) noexcept {
  if (attr.progress == FI_PROGRESS_AUTO) return Turns::kNone;  // the service thread runs beside the application
  if (attr.threading == FI_THREAD_DOMAIN) return Turns::kDomain;
  return attr.threading == FI_THREAD_COMPLETION ? Turns::kCompletion : Turns::kNone;
}

// Threads asleep between an engine's prepare_wait() and the next time that they drive it. When several have slept at
// once, a thread is always assumed to sleep from then on. The engine's mutex guards it.
class Sleepers {
 public:
  bool any() const noexcept { return one_; }
  // The calling thread is going to sleep.
  void add() noexcept {
    const pthread_t self = ::pthread_self();
    if (one_ && ::pthread_equal(thread_, self) == 0) many_ = true;
    one_ = true;
    thread_ = self;
  }
  // The calling thread makes progress. True: now none sleeps.
  bool remove() noexcept {
    if (!one_ || many_ || ::pthread_equal(thread_, ::pthread_self()) == 0) return false;
    one_ = false;
    return true;
  }

 private:
  bool one_ = false, many_ = false;  // `thread_` sleeps; several may
  pthread_t thread_{};
};

// A provider's engine derives from it, adds drive() and prepare_wait() (objects/progress.h) and calls stop_service()
// before anything that its thread uses goes away.
class EngineBase : public RefCounted {
 public:
  // Called without the mutex:
  Mutex& mutex() noexcept { return mutex_; }
  // Called first, for an engine of one queue only: its sleepers are woken through its wait object, not by a descriptor.
  void serve_only(WaitObject& sleepers) noexcept { only_sleepers_ = &sleepers; }
  // Opens the descriptors if nothing has needed them so far. Negative: an error of the system.
  int wait_fd() noexcept {
    Lock lock(mutex_);
    const Status opened = open_descriptors();
    return opened.ok() ? epoll_.get() : opened.code();
  }
  // Null for an engine of one queue, and without memory: then every sleeper polls the descriptor.
  std::shared_ptr<PollingTurns> polling_turns() noexcept {
    if (only_sleepers_ != nullptr) return nullptr;
    Lock lock(mutex_);
    try {
      if (polling_turns_ == nullptr) polling_turns_ = std::make_shared<PollingTurns>();
    } catch (const std::bad_alloc&) {
    }
    return polling_turns_;
  }
  void stop_service() noexcept { service_.stop(wake_.get()); }
  DeferredWork& deferred() noexcept { return deferred_; }

  // False while all users are serialised.
  bool locking() const noexcept { return mutex_.enabled(); }
  Turns turns() const noexcept { return turns_.load(std::memory_order_relaxed); }
  // Called before other threads drive the engine: readers of an event queue, which belongs to no domain, or a thread of
  // the library. Turns the locks of the domain on, for good.
  void expect_others() {
    std::lock_guard lock(turns_mutex_);
    turns_ = Turns::kNone;
    lock_all();
  }
  // Called before the application gets an object that FI_THREAD_COMPLETION lets several threads use at the same time,
  // with no queue in common.
  void expect_groups() {
    if (turns() == Turns::kCompletion) expect_others();
  }
  // Whether a queue or counter that is being opened locks. Its wait object may bring other threads: a wait set belongs
  // to no domain either.
  template <class Attr>
  bool locking_with(const Attr* attr) {
    if (attr != nullptr && (attr->wait_obj == FI_WAIT_SET || attr->wait_obj == FI_WAIT_MUTEX_COND)) expect_others();
    return locking();
  }

  // A registration was closed: returns when no access to its memory is under way.
  void on_region_closed() { mutex_.wait_for_others(); }

  // Registers a mutex that is turned on and off together with the engine's: with FI_THREAD_DOMAIN that of the memory
  // regions. on_opened() registers those of queues.
  void lock_along(Mutex& mutex) {
    std::lock_guard lock(turns_mutex_);
    along_.push_back(&mutex);
  }
  // Queues (each with its mutex), counters and endpoints are opened and closed: with FI_THREAD_COMPLETION the only
  // endpoint of a domain and the queues bound to it need no locks, since their users are serialised.
  void on_opened(Mutex* queue) {
    std::lock_guard lock(turns_mutex_);
    leave_parent();
    if (queue != nullptr) along_.push_back(queue);
    ++queues_;
    if (turns() == Turns::kCompletion) lock_all();
  }
  void on_closed(Mutex* queue) noexcept {
    std::lock_guard lock(turns_mutex_);
    --queues_;
    std::erase(along_, queue);
  }
  void on_endpoint_opened() {
    std::lock_guard lock(turns_mutex_);
    leave_parent();
    ++endpoints_;
    if (turns() == Turns::kCompletion) lock_all();
  }
  void on_endpoint_closed() noexcept {
    std::lock_guard lock(turns_mutex_);
    --endpoints_;
  }
  // With the mutex held: an endpoint was enabled; `bound` queues and counters are bound to it.
  void on_enabled(std::size_t bound) {
    if (turns() != Turns::kCompletion) return;
    std::lock_guard lock(turns_mutex_);
    if (endpoints_ != 1 || queues_ != bound || !mutex_.disable()) return;
    for (Mutex* each : along_) each->disable();
  }

  // Messages must not be gathered, because the application's next call may be far away: a thread sleeps until the
  // descriptor is readable, or the service thread makes progress.
  bool must_send_now() const noexcept { return waiting_ || automatic_; }
  // With the mutex held; see send_injected.h.
  Clock::time_point closes_wait_from{};
  // The number of the application's round of progress: sends posted within one round belong to one burst.
  std::uint64_t round() const noexcept { return round_; }

 protected:
  explicit EngineBase(Turns turns = Turns::kNone) noexcept
      : mutex_(turns != Turns::kDomain), deferred_(mutex_.enabled(), wake_, mutex_), turns_(turns) {}
  ~EngineBase() = default;

  // Called before the descriptors are used, with the mutex held: a domain without queues that wait, without enabled
  // endpoints and without deferred work has none.
  Status open_descriptors() noexcept {
    if (epoll_) return {};
    UniqueFd epoll(net::epoll_create());
    if (!epoll) return Status(epoll.get());
    if (only_sleepers_ == nullptr)
      if (Status status = open_wake(epoll.get()); !status.ok()) return status;
    epoll_ = std::move(epoll);
    process_ = ::getpid();
    return {};
  }

  // wait_fd() becomes readable when `fd` does; epoll_wait() reports it with `data`.
  Status add_descriptor(int fd, void* data) noexcept {
    if (Status status = open_descriptors(); !status.ok()) return status;
    return Status(std::min(0, net::epoll_add(epoll_.get(), fd, EPOLLIN, data)));
  }

  // With the mutex held. Calls serve() with the mutex held, each time that wait_fd() is readable. Idempotent.
  template <class Serve>
  Status start_service(Serve serve) {
    static_assert(noexcept(serve()));
    if (service_.running()) return Status();
    assert(locking());
    if (Status status = open_descriptors(); !status.ok()) return status;
    if (Status status = open_wake(epoll_.get()); !status.ok()) return status;
    const Status started = service_.start(epoll_.get(), [this, serve]() noexcept {
      {
        Lock serving(mutex_);
        serve();
      }
      deferred_.run();
      if (deferred_.due()) wake();
    });
    if (started.ok()) automatic_ = true;
    return started;
  }

  // After a round in a call that starts no deferred work itself: it may have drained the event for the thread that
  // does.
  void pass_on_deferred() noexcept {
    if (deferred_.due()) wake();
  }

  // With or without the mutex.
  void wake() noexcept {
    if (wake_) net::event_signal(wake_.get());
    if (only_sleepers_ != nullptr) only_sleepers_->signal();
  }

  Mutex mutex_;
  UniqueFd epoll_;
  UniqueFd wake_;         // wakes the threads that poll wait_fd(), unless they are those of `only_sleepers_`
  bool waiting_ = false;  // prepare_wait() let its caller sleep, and no progress was made since
  Sleepers asleep_;       // some may sleep on although another thread has made progress
  std::uint64_t round_ = 1;
  std::atomic<bool> automatic_{false};
  DeferredWork deferred_;  // used without the mutex
  std::shared_ptr<PollingTurns> polling_turns_;

 private:
  Status open_wake(int epoll) noexcept {
    if (wake_) return {};
    UniqueFd wake(net::event_open());
    if (!wake) return Status(wake.get());
    if (int result = net::epoll_add(epoll, wake.get(), EPOLLIN, &wake_); result < 0) return Status(result);
    wake_ = std::move(wake);
    return {};
  }
  // With turns_mutex_ held, before an object is opened. A child of fork(2) that opens the first one of a domain shares
  // the descriptors with its parent, and with other children: they would report the events of the others' sockets.
  void leave_parent() noexcept {
    if (queues_ + endpoints_ != 0 || !epoll_ || process_ == ::getpid()) return;
    epoll_.reset();
    wake_.reset();
  }
  void lock_all() noexcept {
    mutex_.enable();
    deferred_.start_locking();
    for (Mutex* each : along_) each->enable();
  }

  std::mutex turns_mutex_;  // guards the rest; taken with mutex_ held only before locks are turned off
  std::atomic<Turns> turns_;
  std::size_t queues_ = 0;  // and counters
  std::size_t endpoints_ = 0;
  std::vector<Mutex*> along_;
  pid_t process_ = 0;  // that opened the descriptors
  ServiceThread service_;
  WaitObject* only_sleepers_ = nullptr;
};

}  // namespace weft
