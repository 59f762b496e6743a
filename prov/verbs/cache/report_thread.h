// SPDX-License-Identifier: BSD-2-Clause
// The thread of a memory monitor: it waits for reports; memory_monitor.h.
#pragma once

#include <poll.h>

#include <atomic>
#include <new>
#include <system_error>
#include <thread>

#include "base/library_thread.h"
#include "base/readiness.h"
#include "base/unique_fd.h"
#include "verbs/cache/memory_monitor.h"

namespace weft::verbs {

// Owner: the monitor, which calls stop() before the descriptor is closed. The thread may be stopped by any other one.
class ReportThread {
 public:
  // Calls the listener whenever the descriptor is readable. False: nothing is left to start it with.
  bool start(int descriptor, ChangeListener& listener) noexcept try {
    wake_.reset(net::event_open());
    if (!wake_) return false;
    thread_ = library_thread([this, descriptor, &listener]() noexcept {
      pollfd ready[] = {{descriptor, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      while (!stopping_.load() && ((ready[0].revents | ready[1].revents) & (POLLERR | POLLNVAL)) == 0)
        if (::poll(ready, 2, -1) > 0 && (ready[0].revents & POLLIN) != 0) listener.on_reports();
    });
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  void stop() noexcept {
    if (!thread_.joinable()) return;
    stopping_ = true;
    net::event_signal(wake_.get());
    thread_.join();
  }

 private:
  UniqueFd wake_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace weft::verbs
