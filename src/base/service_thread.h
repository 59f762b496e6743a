// SPDX-License-Identifier: BSD-2-Clause
// A thread that drives an engine whenever the engine's descriptor is readable: progress without the application's calls
// (FI_PROGRESS_AUTO, fi_domain(3)).
//
// Owner: the engine, which starts it under its mutex and stops it in its destructor, before the objects that it drives
// are destroyed.
#pragma once

#include <poll.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <system_error>
#include <thread>

#include "base/library_thread.h"
#include "base/readiness.h"
#include "base/status.h"

namespace weft {

class ServiceThread {
 public:
  bool running() const noexcept { return thread_.joinable(); }

  // Called once at most. `serve` runs in the thread, once each time that `readiness_fd` is readable. -FI_EAGAIN or
  // another error of the system if no thread can be started.
  template <class Serve>
  Status start(int readiness_fd, Serve serve) {
    static_assert(noexcept(serve()));
    try {
      thread_ = library_thread([this, readiness_fd, serve]() noexcept {
        while (!stopping_) {
          pollfd readiness{readiness_fd, POLLIN, 0};
          if (::poll(&readiness, 1, -1) > 0) serve();
        }
      });
    } catch (const std::system_error& error) {
      return Status::from_errno(error.code().value());
    } catch (const std::bad_alloc&) {
      return Status::from_errno(ENOMEM);
    }
    return Status();
  }

  // `wake_fd` is an event that makes `readiness_fd` readable. Does nothing if no thread was started.
  void stop(int wake_fd) noexcept {
    if (!running()) return;
    stopping_ = true;
    net::event_signal(wake_fd);
    thread_.join();
  }

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace weft
