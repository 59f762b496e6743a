// SPDX-License-Identifier: BSD-2-Clause
// The thread of a fabric that calls the handlers of its queues; kfi_eq(3) HANDLERS. It starts with the first queue that
// has a handler, and ends with the last one.
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "kfabric/object.h"
#include "kfabric/wakeup.h"

namespace weft::kfabric {

// One queue with a handler. Armed: the next entry causes a call. A call disarms it, a read of the empty queue arms it.
struct Watch {
  fid* queue;
  int fd;  // the queue's wait object
  std::function<void()> call;
  std::atomic<bool> armed{true};
  std::list<Watch*> place{this};  // while the dispatcher does not have it: entering needs no memory
};

class Dispatcher {
 public:
  explicit Dispatcher(fid_fabric*& fabric) : fabric_(fabric) {}
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // The watch must stay where it is until remove(). Fails without memory, descriptors or threads.
  int add(Watch& watch) noexcept;
  // As add(), after a remove(): cannot fail.
  void add_again(Watch& watch) noexcept;
  // Waits for a running call; -KFI_EBUSY from inside that call.
  int remove(Watch& watch);
  // After a remove() that is not followed by add_again(). The thread ends with the last watch.
  void removed() noexcept;
  // The calling thread runs a handler.
  static bool in_handler() noexcept;
  // After a read found the queue empty: the thread polls it again, because an entry may have come in between.
  void rearm(Watch& watch);

 private:
  void run();
  bool call_ready(std::unique_lock<std::mutex>& lock);
  void enter(Watch& watch) noexcept;

  fid_fabric*& fabric_;
  std::mutex starting_;            // held while the thread starts or ends; before mutex_
  std::mutex mutex_;               // guards the rest
  std::condition_variable ended_;  // a handler returned
  std::list<Watch*> watches_;
  size_t known_ = 0;            // watches, with those that may be added again
  std::vector<pollfd> larger_;  // for the thread, when it has more watches
  Watch* running_ = nullptr;
  bool stop_ = false;
  Wakeup wakeup_;
  std::thread thread_;
};

}  // namespace weft::kfabric
