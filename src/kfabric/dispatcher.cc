// SPDX-License-Identifier: BSD-2-Clause
// The thread that calls the handlers of a fabric's queues.
#include "kfabric/dispatcher.h"

#include <algorithm>
#include <csignal>

namespace weft::kfabric {
namespace {

// While it exists, signals are blocked, also in threads that are started meanwhile: the program's own threads handle
// its signals.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

thread_local bool calls_handlers = false;

}  // namespace

bool Dispatcher::in_handler() noexcept {
  return calls_handlers;
}

int Dispatcher::add(Watch& watch) noexcept {
  return guarded<int>([&] {
    std::lock_guard starting(starting_);
    std::lock_guard lock(mutex_);
    if (int result = wakeup_.open()) return result;
    larger_.reserve(known_ + 2);
    if (!thread_.joinable()) {
      const BlockedSignals inherited;
      thread_ = std::thread([this] { run(); });
    }
    ++known_;
    enter(watch);
    return 0;
  });
}

void Dispatcher::add_again(Watch& watch) noexcept {
  std::lock_guard lock(mutex_);
  enter(watch);
}

void Dispatcher::enter(Watch& watch) noexcept {
  watches_.splice(watches_.end(), watch.place);
  wakeup_.give();
}

int Dispatcher::remove(Watch& watch) {
  std::unique_lock lock(mutex_);
  if (running_ == &watch && std::this_thread::get_id() == thread_.get_id()) return -KFI_EBUSY;
  const auto place = std::find(watches_.begin(), watches_.end(), &watch);
  if (place != watches_.end()) watch.place.splice(watch.place.end(), watches_, place);
  ended_.wait(lock, [&] { return running_ != &watch; });
  return 0;
}

// No handler runs when the last watch is gone, so that none waits for this.
void Dispatcher::removed() noexcept {
  std::lock_guard starting(starting_);
  {
    std::lock_guard lock(mutex_);
    if (--known_ != 0) return;
    stop_ = true;
  }
  wakeup_.give();
  thread_.join();
  stop_ = false;
}

void Dispatcher::rearm(Watch& watch) {
  if (!watch.armed.exchange(true)) wakeup_.give();
}

// Calls the handler of one armed queue that has entries. The lock is not held during the call.
bool Dispatcher::call_ready(std::unique_lock<std::mutex>& lock) {
  for (auto place = watches_.begin(); place != watches_.end(); ++place) {
    Watch* const watch = *place;
    if (!watch->armed || fi_trywait(fabric_, &watch->queue, 1) != -FI_EAGAIN) continue;
    watch->armed = false;
    running_ = watch;
    // A queue that was called goes to the end, so that a busy one does not starve the others.
    watches_.splice(watches_.end(), watches_, place);
    lock.unlock();
    watch->call();
    lock.lock();
    running_ = nullptr;
    ended_.notify_all();
    return true;
  }
  return false;
}

void Dispatcher::run() {
  calls_handlers = true;
  std::vector<pollfd> fds;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (call_ready(lock)) continue;
    if (fds.capacity() <= watches_.size()) fds.swap(larger_);
    fds.assign(1, pollfd{wakeup_.fd(), POLLIN, 0});
    for (Watch* watch : watches_) {
      if (watch->armed) fds.push_back(pollfd{watch->fd, POLLIN, 0});
    }
    lock.unlock();
    poll(fds.data(), fds.size(), -1);
    wakeup_.take();
    lock.lock();
  }
}

}  // namespace weft::kfabric
