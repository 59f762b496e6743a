// SPDX-License-Identifier: BSD-2-Clause
// Tasks that may take their time, such as asking name servers, run in order by a thread that lives while there are any.
#pragma once

#include <rdma/fi_errno.h>

#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace weft {

// Thread-safe. Its end waits for the tasks; they must not throw.
class BackgroundTasks {
 public:
  BackgroundTasks() = default;
  ~BackgroundTasks() { wait(); }
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  // -FI_ENOMEM: there is no thread to be had.
  Status add(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    pending_.push_back(std::move(task));
    if (running_) return {};
    if (thread_.joinable()) thread_.join();  // it has just said that it is done
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {
      pending_.pop_back();
      return Status(-FI_ENOMEM);
    }
    running_ = true;
    return {};
  }
  // Nobody adds any more.
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() noexcept {
    for (;;) {
      std::function<void()> next;
      {
        std::lock_guard lock(mutex_);
        if (pending_.empty()) {
          running_ = false;
          return;
        }
        next = std::move(pending_.front());
        pending_.pop_front();
      }
      next();
    }
  }

  std::mutex mutex_;  // guards the rest
  std::deque<std::function<void()>> pending_;
  bool running_ = false;  // false: the thread, if any, needs mutex_ no more
  std::thread thread_;
};

}  // namespace weft
