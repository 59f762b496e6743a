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
#include <cerrno>

#include "base/library_thread.h"
#include "base/standard_descriptors.h"

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

WaitObject::State::~State() = default;

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
  state_ = std::make_unique<State>();
  kind_ = kind;
  return {};
}

void WaitObject::join(WaitObject& set) noexcept {
  kind_ = FI_WAIT_SET;
  target_ = &set;
}

Status WaitObject::attach(int fd, std::shared_ptr<PollingTurns> turns) {
  if (fd < 0) return Status(fd);
  if (target_ != this) return target_->attach(fd, std::move(turns));
  if (state_ == nullptr) return {};
  std::lock_guard lock(state_->mutex);
  for (Attached& attached : state_->attached) {
    if (attached.fd != fd) continue;
    ++attached.count;
    return {};
  }
  state_->attached.push_back({fd, 1, std::move(turns)});
  if (state_->epoll) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (::epoll_ctl(state_->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      state_->attached.pop_back();
      return Status::last_errno();
    }
  }
  ++state_->change_index;
  if (state_->sleepers != 0 || state_->driver) wake_locked();
  return {};
}

void WaitObject::detach(int fd) noexcept {
  if (target_ != this) return target_->detach(fd);
  if (state_ == nullptr) return;
  std::lock_guard lock(state_->mutex);
  const auto attached =
      std::find_if(state_->attached.begin(), state_->attached.end(), [&](Attached& a) { return a.fd == fd; });
  if (attached == state_->attached.end() || --attached->count != 0) return;
  state_->attached.erase(attached);
  if (state_->epoll) ::epoll_ctl(state_->epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
  ++state_->change_index;
  if (state_->sleepers != 0 || state_->driver) wake_locked();
}

void WaitObject::wake() noexcept {
  std::lock_guard lock(state_->mutex);
  if (armed_.load(std::memory_order_relaxed)) wake_locked();
}

void WaitObject::wake_locked() noexcept {
  armed_.store(false);
  ++state_->wakes;
  if (state_->sleepers != 0) state_->followers.notify_all();
  state_->stay_set = state_->polling;
  if (state_->event_set || !state_->event) return;
  state_->event_set = true;
  const uint64_t one = 1;
  const Uncancellable through;
  [[maybe_unused]] const ssize_t written = ::write(state_->event.get(), &one, sizeof one);
  assert(written == sizeof one);  // the event is drained in between, so its count cannot overflow
}

bool WaitObject::drain_locked() noexcept {
  if (!state_->event_set || state_->stay_set) return false;
  state_->event_set = false;
  uint64_t count;
  const Uncancellable through;
  [[maybe_unused]] const ssize_t got = ::read(state_->event.get(), &count, sizeof count);
  return true;
}

bool WaitObject::arm() noexcept {
  if (target_ != this) return target_->arm();
  if (state_ == nullptr) return false;
  std::lock_guard lock(state_->mutex);
  const bool took = !state_->driver && drain_locked();  // otherwise the driver drains it
  armed_.store(true);
  return took;
}

void WaitObject::interrupt() noexcept {
  interrupts_.fetch_add(1);
  if (state_ != nullptr) wake_now();
}

void WaitObject::wake_now() noexcept {
  std::lock_guard lock(state_->mutex);
  wake_locked();
}

WaitObject::Turns::Turns(WaitObject& sleeper) noexcept
    : array{PollingTurns::Turn(sleeper), PollingTurns::Turn(sleeper), PollingTurns::Turn(sleeper),
            PollingTurns::Turn(sleeper), PollingTurns::Turn(sleeper), PollingTurns::Turn(sleeper),
            PollingTurns::Turn(sleeper)} {}

WaitObject::Waiter::~Waiter() {
  if (!slept_) return;
  std::lock_guard lock(wait_.state_->mutex);
  if (leads_) wait_.state_->has_leader = false;
  if (!wait_.state_->has_leader && wait_.state_->sleepers != 0) wait_.state_->followers.notify_one();
}

WaitObject::Sleeper::Sleeper(Waiter& waiter) noexcept : waiter_(waiter), wait_(waiter.wait_) {
  std::lock_guard lock(wait_.state_->mutex);
  waiter.slept_ = true;
  wakes_seen_ = wait_.state_->wakes;
  ++wait_.state_->sleepers;
  wait_.armed_.store(true);
}

WaitObject::Sleeper::~Sleeper() {
  std::lock_guard lock(wait_.state_->mutex);
  if (--wait_.state_->sleepers == 0 && !wait_.state_->native) wait_.armed_.store(false);
}

void WaitObject::Sleeper::sleep(Deadline deadline) {
  std::unique_lock lock(wait_.state_->mutex);
  const auto up = [this] { return wait_.state_->wakes != wakes_seen_ || !wait_.state_->has_leader; };
  if (!waiter_.leads_ && wait_.state_->has_leader) {
    const Uncancellable::Window asleep(waiter_.awake_);
    if (deadline.infinite())
      wait_.state_->followers.wait(lock, up);
    else
      wait_.state_->followers.wait_until(lock, deadline.time(), up);
    return;  // a new leader makes progress before it polls
  }
  waiter_.leads_ = wait_.state_->has_leader = true;
  if (wait_.state_->wakes != wakes_seen_) return;
  // Without a descriptor nothing can end the sleep: it is short, so that progress continues.
  if (!wait_.open_event_locked().ok()) deadline = std::min(deadline, Deadline::in_ms(1));
  if (!waiter_.turns_) waiter_.turns_.emplace(wait_);
  wait_.take_turns(lock, *waiter_.turns_);
  if (wait_.state_->wakes != wakes_seen_) return;
  wait_.drain_locked();  // a wake-up from before this thread armed
  waiter_.signalled_ = !wait_.poll_descriptors(lock, deadline, waiter_.awake_, &*waiter_.turns_);
}

Status WaitObject::open_event_locked() noexcept {
  if (!state_->event) state_->event = UniqueFd(above_standard(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  return state_->event ? Status() : Status::last_errno();
}

void WaitObject::take_turns(std::unique_lock<std::mutex>& lock, Turns& turns) noexcept {
  const std::vector<Attached>& attached = state_->attached;
  const auto wanted = [&](std::size_t i) {
    return i < attached.size() && attached.size() <= kDirect ? attached[i].turns : nullptr;
  };
  for (std::size_t i = 0; i < kDirect; ++i) {
    if (auto next = wanted(i); next.get() != turns[i].turns()) {
      lock.unlock();
      turns[i].take(std::move(next));
      lock.lock();
    }
  }
}

bool WaitObject::poll_descriptors(std::unique_lock<std::mutex>& lock, Deadline deadline, const Uncancellable& awake,
                                  const Turns* turns) {
  // Also where the thread is cancelled.
  struct Polling {
    Polling(State& of, std::unique_lock<std::mutex>& lock) noexcept : state(of), held(lock) {
      state.polling = true;
      held.unlock();
    }
    ~Polling() {
      held.lock();
      state.polling = state.stay_set = false;
    }
    State& state;
    std::unique_lock<std::mutex>& held;
  };

  // With more than a few engines on one queue, poll the epoll descriptor that FI_WAIT_FD applications get.
  std::array<pollfd, kDirect + 1> fds;
  nfds_t count = 0;
  if (state_->attached.size() <= kDirect) {
    fds[count++] = {state_->event.get(), POLLIN, 0};
    for (std::size_t i = 0; i < state_->attached.size(); ++i)
      if (turns == nullptr || state_->attached[i].turns == nullptr || (*turns)[i].has_come())
        fds[count++] = {state_->attached[i].fd, POLLIN, 0};
  } else {
    // As in sleep() without a descriptor.
    if (get_epoll_locked() != 0) deadline = std::min(deadline, Deadline::in_ms(1));
    fds[count++] = {state_->epoll.get(), POLLIN, 0};
  }
  const Polling polling(*state_, lock);
  const timespec left = to_timespec(deadline.infinite() ? Clock::duration() : deadline.time() - Clock::now());
  const Uncancellable::Window asleep(awake);
  return ::ppoll(fds.data(), count, deadline.infinite() ? nullptr : &left, nullptr) >= 0 || errno != EINTR;
}

Status WaitObject::start_driver(std::function<bool()> progress) {
  if (kind_ != FI_WAIT_MUTEX_COND) return {};
  if (Status status = open_event_locked(); !status.ok()) return status;  // there is no other thread yet
  state_->driver = std::make_unique<Driver>();
  state_->driver->progress = std::move(progress);
  state_->has_leader = true;
  try {
    state_->driver->thread = library_thread([this] { run_driver(); });
  } catch (...) {
    state_->driver.reset();
    return Status(-FI_ENOMEM);
  }
  return {};
}

void WaitObject::stop_driver() noexcept {
  if (state_ == nullptr || !state_->driver) return;
  state_->driver->stop.store(true);
  {
    std::lock_guard lock(state_->mutex);
    wake_locked();
  }
  state_->driver->thread.join();
  state_->driver.reset();
}

void WaitObject::run_driver() noexcept {
  const Uncancellable awake;
  while (!state_->driver->stop.load()) {
    const bool may_sleep = state_->driver->progress();
    bool woken;
    {
      std::unique_lock lock(state_->mutex);
      if (may_sleep && !state_->event_set) (void)poll_descriptors(lock, Deadline(), awake);
      woken = state_->event_set;
      drain_locked();
    }
    if (woken) state_->driver->broadcast();
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
  if (state_ == nullptr) return -FI_ENODATA;
  std::lock_guard lock(state_->mutex);
  if (Status status = open_event_locked(); !status.ok()) return status.code();
  int result = -FI_ENODATA;
  if (kind_ == FI_WAIT_FD) {
    result = get_epoll_locked();
    if (result == 0) *static_cast<int*>(arg) = state_->epoll.get();
  } else if (kind_ == FI_WAIT_POLLFD) {
    result = get_descriptors_locked(static_cast<fi_wait_pollfd*>(arg));
  } else if (kind_ == FI_WAIT_MUTEX_COND && state_->driver) {
    *static_cast<fi_mutex_cond*>(arg) = {&state_->driver->mutex, &state_->driver->condition};
    result = 0;
  }
  if (result == 0 && !state_->native) {
    state_->native = true;
    armed_.store(true);
  }
  return result;
}

int WaitObject::get_epoll_locked() noexcept {
  if (state_->epoll) return 0;
  UniqueFd epoll(above_standard(::epoll_create1(EPOLL_CLOEXEC)));
  if (!epoll) return -errno;
  epoll_event event{.events = EPOLLIN, .data = {.fd = state_->event.get()}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, state_->event.get(), &event) != 0) return -errno;
  for (const Attached& attached : state_->attached) {
    event.data.fd = attached.fd;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, attached.fd, &event) != 0) return -errno;
  }
  state_->epoll = std::move(epoll);
  return 0;
}

int WaitObject::get_descriptors_locked(fi_wait_pollfd* out) noexcept {
  const size_t room = out->nfds;
  out->change_index = state_->change_index;
  out->nfds = state_->attached.size() + 1;
  if (room < out->nfds) return -FI_ETOOSMALL;
  out->fd[0] = {state_->event.get(), POLLIN, 0};
  for (size_t i = 0; i < state_->attached.size(); ++i) out->fd[i + 1] = {state_->attached[i].fd, POLLIN, 0};
  return 0;
}

void WaitObject::note_wait(Clock::duration length, bool spun) noexcept {
  const int quick = quick_waits_.load(std::memory_order_relaxed);
  int next = quick;
  if (spun)
    next = length <= kSpin ? quick : kFailedSpin;  // spinning also fails when the peer needs this processor
  else if (length <= 2 * kSpin)                    // the thread slept: a wake-up longer than spinning
    next = std::min(quick + 1, kQuickWaits);
  else
    next = std::min(quick, 0);
  if (next != quick) quick_waits_.store(static_cast<std::int8_t>(next), std::memory_order_relaxed);
}

}  // namespace weft
