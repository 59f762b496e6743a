// SPDX-License-Identifier: BSD-2-Clause
// What the progress engines of the software providers have in common: the mutex, the descriptor that sleepers poll, the
// event that wakes them, and a thread that makes progress without the application's calls; fi_domain(3), progress.
//
// Thread-safety: with the mutex held, unless a member says otherwise.
#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/mutex.h"
#include "base/readiness.h"
#include "base/ref.h"
#include "base/service_thread.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/deferred_work.h"

namespace weft {

// A provider's engine derives from it, adds drive() and prepare_wait() (objects/progress.h) and calls stop_service()
// before anything that its thread uses goes away.
class EngineBase : public RefCounted {
 public:
  // These without the mutex.
  Mutex& mutex() noexcept { return mutex_; }
  int wait_fd() const noexcept { return epoll_.get(); }
  void stop_service() noexcept { service_.stop(wake_.get()); }
  DeferredWork& deferred() noexcept { return deferred_; }

  // Nobody comes back soon to send what would be gathered: the next progress is a thread's that sleeps or serves.
  bool must_send_now() const noexcept { return waiting_ || automatic_; }
  // Counts the application's rounds of progress: sends posted within one round belong to one burst.
  std::uint64_t round() const noexcept { return round_; }

 protected:
  // `locking`: false if the application serialises all calls of the domain and there is no thread of ours.
  explicit EngineBase(bool locking = true) noexcept : mutex_(locking), deferred_(locking, wake_, mutex_) {}
  ~EngineBase() = default;

  Status open_descriptors() noexcept {
    const int epoll = net::epoll_create();
    if (epoll < 0) return Status(epoll);
    epoll_.reset(epoll);
    const int wake = net::event_open();
    if (wake < 0) return Status(wake);
    wake_.reset(wake);
    return add_descriptor(wake, &wake_);
  }

  // wait_fd() becomes readable with it; `data` is what epoll_wait() says then.
  Status add_descriptor(int fd, void* data) noexcept {
    return Status(std::min(0, net::epoll_add(epoll_.get(), fd, EPOLLIN, data)));
  }

  // Calls serve() with the mutex held, each time that wait_fd() is readable. Idempotent.
  template <class Serve>
  Status start_service(Serve serve) {
    static_assert(noexcept(serve()));
    if (service_.running()) return Status();
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

  // Without the mutex, too.
  void wake() noexcept { net::event_signal(wake_.get()); }

  Mutex mutex_;
  UniqueFd epoll_;
  UniqueFd wake_;         // ends the sleep of whoever polls wait_fd()
  bool waiting_ = false;  // prepare_wait() said that its caller may sleep, and no progress was made since
  std::uint64_t round_ = 1;
  std::atomic<bool> automatic_{false};
  DeferredWork deferred_;  // without the mutex

 private:
  ServiceThread service_;
};

}  // namespace weft
