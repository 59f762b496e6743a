// SPDX-License-Identifier: BSD-2-Clause
// Slow tasks, such as queries to name servers, run in order by a thread that exists while tasks are left.
#pragma once

#include <rdma/fi_errno.h>

#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "base/library_thread.h"
#include "base/status.h"

namespace weft {

// Thread-safe. The destructor waits for the tasks; they must not throw.
class BackgroundTasks {
 public:
  ~BackgroundTasks() { wait(); }

  // -FI_ENOMEM: no thread could be started; the task will not run.
  Status add(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    pending_.push_back(std::move(task));
    if (running_) return {};
    if (thread_.joinable()) thread_.join();  // the thread is past its last task
    try {
      thread_ = library_thread([this] { run(); });
    } catch (const std::exception&) {  // the system refuses, or memory ran out
      pending_.pop_back();
      return Status(-FI_ENOMEM);
    }
    running_ = true;
    return {};
  }
  // Returns after the last task. No task may be added meanwhile.
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

  std::mutex mutex_;                          // guards the rest
  std::list<std::function<void()>> pending_;  // a deque occupies half a kilobyte while it is empty
  bool running_ = false;                      // false: the thread, if any, does not use mutex_ any more
  std::thread thread_;
};

}  // namespace weft
