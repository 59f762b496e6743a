// SPDX-License-Identifier: BSD-2-Clause
// The progress engine of a domain of ofi_rxm; see engine.h.
#include "rxm/engine.h"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <system_error>

namespace weft::rxm {
namespace {

bool watch_descriptor(int epoll, int fd) noexcept {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

bool readable(int fd) noexcept {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

void drain(int fd) noexcept {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(fd, &count, sizeof count);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(fid_fabric* lower, bool locking) {
  std::unique_ptr<Engine> engine(new Engine(lower, locking));
  engine->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  engine->timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  engine->wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!engine->epoll_ || !engine->timer_ || !engine->wake_) return failure(Status::last_errno());
  for (int fd : {engine->timer_.get(), engine->wake_.get()})
    if (!watch_descriptor(engine->epoll_.get(), fd)) return failure(Status::last_errno());
  return engine;
}

Engine::~Engine() {
  stop_service_thread();
}

void Engine::remove(Driven& driven) noexcept {
  static_cast<ListHook<Driven>&>(driven).unlink();
  driven.watched_ = false;
}

void Engine::drive() noexcept {
  Lock lock(mutex_);
  progress();
}

void Engine::progress() noexcept {
  if (waiting_) {
    waiting_ = false;
    drain(wake_.get());
  }
  for (auto it = driven_.begin(); it != driven_.end();) {
    Driven& each = *it;
    ++it;
    each.progress();
  }
}

// The lower queues' descriptors join ours when somebody is going to sleep for the first time: until then they make
// nobody pay.
bool Engine::watch(Driven& driven) noexcept {
  if (driven.watched_) return true;
  for (::fid* fid : {&driven.lower_queue()->fid, &driven.lower_events()->fid}) {
    int fd = -1;
    if (fi_control(fid, FI_GETWAIT, &fd) != 0 || !watch_descriptor(epoll_.get(), fd)) return false;
  }
  driven.watched_ = true;
  return true;
}

bool Engine::set_timer() noexcept {
  Deadline next;
  for (Driven& each : driven_) next = std::min(next, each.next_deadline());
  if (next.expired()) return false;
  if (next == timer_set_for_ && next.infinite()) return true;
  timer_set_for_ = next;
  itimerspec when{};
  if (!next.infinite()) {
    const auto since_boot = next.time().time_since_epoch();  // steady_clock is CLOCK_MONOTONIC
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
    when.it_value = {seconds.count(), std::chrono::nanoseconds(since_boot - seconds).count()};
  }
  return ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0;
}

bool Engine::prepare() noexcept {
  progress();
  for (Driven& each : driven_) {
    if (each.restless() || !watch(each)) return false;
    ::fid* fids[] = {&each.lower_queue()->fid, &each.lower_events()->fid};
    if (fi_trywait(lower_, fids, 2) != 0) return false;
  }
  if (!set_timer()) return false;
  waiting_ = true;
  return true;
}

bool Engine::prepare_wait() noexcept {
  Lock lock(mutex_);
  return prepare();
}

void Engine::expect_sleepers() noexcept {
  Lock lock(mutex_);
  for (Driven& each : driven_) watch(each);
}

void Engine::wake() noexcept {
  if (!waiting_) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

Status Engine::start_service_thread() {
  try {
    service_ = std::thread([this] { serve(); });
  } catch (const std::system_error&) {
    return Status(-FI_ENOMEM);
  }
  return {};
}

void Engine::stop_service_thread() noexcept {
  if (!service_.joinable()) return;
  stopping_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  service_.join();
}

void Engine::serve() noexcept {
  while (!stopping_.load()) {
    if (!prepare_wait()) continue;
    pollfd one{epoll_.get(), POLLIN, 0};
    // The limit is for endpoints that are opened while the thread sleeps.
    ::poll(&one, 1, 50);
    if (readable(timer_.get())) drain(timer_.get());
  }
}

}  // namespace weft::rxm
