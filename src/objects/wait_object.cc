// SPDX-License-Identifier: BSD-2-Clause
// Wait objects: the eventfd, the application's view of it, and the thread of FI_WAIT_MUTEX_COND; fi_poll(3), fi_eq(3)
// (FI_GETWAIT).
#include "objects/wait_object.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cassert>

namespace weft {

namespace {

// The remaining time in the form of ppoll.
timespec to_timespec(Clock::duration left) noexcept {
  left = std::max(left, Clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
}

}  // namespace

// FI_WAIT_MUTEX_COND. The thread broadcasts under no lock but the pair's own mutex, so applications may call the
// library while they hold that mutex.
struct WaitObject::Driver {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;  // uses the real-time clock, as applications expect
  std::atomic<bool> stop{false};
  std::function<bool()> progress;
  std::thread thread;

  ~Driver() {
    pthread_cond_destroy(&condition);
    pthread_mutex_destroy(&mutex);
  }
  void broadcast() noexcept {
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
  }
};

WaitObject::WaitObject() noexcept = default;
WaitObject::~WaitObject() {
  stop_driver();
}

Status WaitObject::open(fi_wait_obj kind) {
  switch (kind) {
    case FI_WAIT_NONE:
    case FI_WAIT_YIELD:
      kind_ = kind;
      return {};
    case FI_WAIT_UNSPEC:
      kind = FI_WAIT_FD;
      break;
    case FI_WAIT_FD:
    case FI_WAIT_POLLFD:
    case FI_WAIT_MUTEX_COND:
      break;
    default:
      return Status(-FI_EINVAL);
  }
  event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_) return Status::last_errno();
  kind_ = kind;
  return {};
}

void WaitObject::join(WaitObject& set) noexcept {
  kind_ = FI_WAIT_SET;
  target_ = &set;
}

Status WaitObject::attach(int fd) {
  if (fd < 0) return Status(fd);
  if (target_ != this) return target_->attach(fd);
  if (!event_) return {};
  std::lock_guard lock(mutex_);
  for (Attached& attached : attached_) {
    if (attached.fd != fd) continue;
    ++attached.count;
    return {};
  }
  attached_.push_back({fd, 1});
  if (epoll_) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      attached_.pop_back();
      return Status::last_errno();
    }
  }
  ++change_index_;
  if (sleepers_ != 0 || driver_) wake_locked();
  return {};
}

void WaitObject::detach(int fd) noexcept {
  if (target_ != this) return target_->detach(fd);
  if (!event_) return;
  std::lock_guard lock(mutex_);
  const auto attached = std::find_if(attached_.begin(), attached_.end(), [&](Attached& a) { return a.fd == fd; });
  if (attached == attached_.end() || --attached->count != 0) return;
  attached_.erase(attached);
  if (epoll_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  ++change_index_;
  if (sleepers_ != 0 || driver_) wake_locked();
}

void WaitObject::wake() noexcept {
  std::lock_guard lock(mutex_);
  if (armed_.load(std::memory_order_relaxed)) wake_locked();
}

void WaitObject::wake_locked() noexcept {
  armed_.store(false);
  ++wakes_;
  if (sleepers_ != 0) followers_.notify_all();
  stay_set_ = polling_;
  if (event_set_) return;
  event_set_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  assert(written == sizeof one);  // the event is drained in between, so its count cannot overflow
}

void WaitObject::drain_locked() noexcept {
  if (!event_set_ || stay_set_) return;
  event_set_ = false;
  uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
}

void WaitObject::arm() noexcept {
  if (target_ != this) return target_->arm();
  if (!event_) return;
  std::lock_guard lock(mutex_);
  if (!driver_) drain_locked();  // otherwise the driver drains it
  armed_.store(true);
}

void WaitObject::interrupt() noexcept {
  interrupts_.fetch_add(1);
  if (!event_) return;
  std::lock_guard lock(mutex_);
  wake_locked();
}

WaitObject::Waiter::~Waiter() {
  if (!slept_) return;
  std::lock_guard lock(wait_.mutex_);
  if (leads_) wait_.has_leader_ = false;
  if (!wait_.has_leader_ && wait_.sleepers_ != 0) wait_.followers_.notify_one();
}

WaitObject::Sleeper::Sleeper(Waiter& waiter) noexcept : waiter_(waiter), wait_(waiter.wait_) {
  std::lock_guard lock(wait_.mutex_);
  waiter.slept_ = true;
  wakes_seen_ = wait_.wakes_;
  ++wait_.sleepers_;
  wait_.armed_.store(true);
}

WaitObject::Sleeper::~Sleeper() {
  std::lock_guard lock(wait_.mutex_);
  if (--wait_.sleepers_ == 0 && !wait_.native_) wait_.armed_.store(false);
}

void WaitObject::Sleeper::sleep(Deadline deadline) noexcept {
  std::unique_lock lock(wait_.mutex_);
  const auto up = [this] { return wait_.wakes_ != wakes_seen_ || !wait_.has_leader_; };
  if (!waiter_.leads_ && wait_.has_leader_) {
    if (deadline.infinite())
      wait_.followers_.wait(lock, up);
    else
      wait_.followers_.wait_until(lock, deadline.time(), up);
    return;  // a new leader makes progress before it polls
  }
  waiter_.leads_ = wait_.has_leader_ = true;
  if (wait_.wakes_ != wakes_seen_) return;
  wait_.drain_locked();  // a wake-up from before this thread armed
  wait_.poll_descriptors(lock, deadline);
}

void WaitObject::poll_descriptors(std::unique_lock<std::mutex>& lock, Deadline deadline) noexcept {
  // With more than a few engines on one queue, poll the epoll descriptor that FI_WAIT_FD applications get.
  constexpr size_t kDirect = 8;
  std::array<pollfd, kDirect> fds;
  nfds_t count = 0;
  if (attached_.size() < kDirect) {
    fds[count++] = {event_.get(), POLLIN, 0};
    for (const Attached& attached : attached_) fds[count++] = {attached.fd, POLLIN, 0};
  } else {
    // Without one (no descriptors left) sleep for a short time only, so that progress continues.
    if (get_epoll_locked() != 0) deadline = std::min(deadline, Deadline::in_ms(1));
    fds[count++] = {epoll_.get(), POLLIN, 0};
  }
  polling_ = true;
  lock.unlock();
  const timespec left = to_timespec(deadline.infinite() ? Clock::duration() : deadline.time() - Clock::now());
  ::ppoll(fds.data(), count, deadline.infinite() ? nullptr : &left, nullptr);
  lock.lock();
  polling_ = stay_set_ = false;
}

Status WaitObject::start_driver(std::function<bool()> progress) {
  if (kind_ != FI_WAIT_MUTEX_COND) return {};
  driver_ = std::make_unique<Driver>();
  driver_->progress = std::move(progress);
  has_leader_ = true;
  try {
    driver_->thread = std::thread([this] { run_driver(); });
  } catch (...) {
    driver_.reset();
    return Status(-FI_ENOMEM);
  }
  return {};
}

void WaitObject::stop_driver() noexcept {
  if (!driver_) return;
  driver_->stop.store(true);
  {
    std::lock_guard lock(mutex_);
    wake_locked();
  }
  driver_->thread.join();
  driver_.reset();
}

void WaitObject::run_driver() noexcept {
  while (!driver_->stop.load()) {
    const bool may_sleep = driver_->progress();
    bool woken;
    {
      std::unique_lock lock(mutex_);
      if (may_sleep && !event_set_) poll_descriptors(lock, Deadline());
      woken = event_set_;
      drain_locked();
    }
    if (woken) driver_->broadcast();
  }
}

int WaitObject::control(int command, void* arg) noexcept {
  if (command != FI_GETWAIT && command != FI_GETWAITOBJ) return -FI_ENOSYS;
  if (arg == nullptr) return -FI_EINVAL;
  if (command == FI_GETWAITOBJ) {
    *static_cast<fi_wait_obj*>(arg) = kind_;
    return 0;
  }
  if (target_ != this) return target_->control(command, arg);
  std::lock_guard lock(mutex_);
  int result = -FI_ENODATA;
  if (kind_ == FI_WAIT_FD) {
    result = get_epoll_locked();
    if (result == 0) *static_cast<int*>(arg) = epoll_.get();
  } else if (kind_ == FI_WAIT_POLLFD) {
    result = get_descriptors_locked(static_cast<fi_wait_pollfd*>(arg));
  } else if (kind_ == FI_WAIT_MUTEX_COND && driver_) {
    *static_cast<fi_mutex_cond*>(arg) = {&driver_->mutex, &driver_->condition};
    result = 0;
  }
  if (result == 0 && !native_) {
    native_ = true;
    armed_.store(true);
  }
  return result;
}

int WaitObject::get_epoll_locked() noexcept {
  if (epoll_) return 0;
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return -errno;
  epoll_event event{.events = EPOLLIN, .data = {.fd = event_.get()}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event_.get(), &event) != 0) return -errno;
  for (const Attached& attached : attached_) {
    event.data.fd = attached.fd;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, attached.fd, &event) != 0) return -errno;
  }
  epoll_ = std::move(epoll);
  return 0;
}

int WaitObject::get_descriptors_locked(fi_wait_pollfd* out) const noexcept {
  const size_t room = out->nfds;
  out->change_index = change_index_;
  out->nfds = attached_.size() + 1;
  if (room < out->nfds) return -FI_ETOOSMALL;
  out->fd[0] = {event_.get(), POLLIN, 0};
  for (size_t i = 0; i < attached_.size(); ++i) out->fd[i + 1] = {attached_[i].fd, POLLIN, 0};
  return 0;
}

void WaitObject::note_wait(Clock::duration length, bool spun) noexcept {
  const int quick = quick_waits_.load(std::memory_order_relaxed);
  int next = quick;
  if (spun)
    next = length <= kSpin ? quick : kFailedSpin;  // spinning also fails when the peer needs this processor
  else if (length <= 2 * kSpin)                    // it slept, so it took a wake-up longer than spinning
    next = std::min(quick + 1, kQuickWaits);
  else
    next = std::min(quick, 0);
  if (next != quick) quick_waits_.store(next, std::memory_order_relaxed);
}

}  // namespace weft
