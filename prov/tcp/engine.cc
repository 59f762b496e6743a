// SPDX-License-Identifier: BSD-2-Clause
// The progress engine; see engine.h.
#include "tcp/engine.h"

#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "tcp/lingering_sockets.h"

namespace weft::tcp {
namespace {

// Edge-triggered: an event reports a change; the flags in Watch keep the state in between. EPOLLOUT is requested only
// while a socket is full: it is nearly always true, and would make every stale entry look like a change.
constexpr std::uint32_t interest(bool output) noexcept {
  return EPOLLIN | EPOLLRDHUP | EPOLLET | (output ? std::uint32_t{EPOLLOUT} : 0);
}

// The scratch space, and the beginning of a header.
constexpr std::size_t kStashSize = Engine::kScratchSize + 256;

std::size_t processors() noexcept {
  static const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<std::size_t>(std::max(online, 1L));
}

}  // namespace

Engine::Engine(Turns turns) noexcept : EngineBase(turns) {
  join();
}

Engine::~Engine() {
  leave();
  stop_service();
  lingering_.reset();
}

Status Engine::open_timer() noexcept {
  if (epoll_ && timer_.fd() >= 0) return {};
  DeadlineTimer opened;
  if (Status status = opened.open(); !status.ok()) return status;
  if (Status status = add_descriptor(opened.fd(), &timer_); !status.ok()) return status;
  timer_ = std::move(opened);
  return {};
}

Status Engine::open_resources() noexcept {
  if (Status status = open_timer(); !status.ok()) return status;
  if (scratch_ == nullptr) scratch_.reset(new (std::nothrow) std::byte[2 * kScratchSize]);
  if (spare_stash_ == nullptr) spare_stash_.reset(new (std::nothrow) std::byte[kStashSize]);
  return Status(scratch_ != nullptr && spare_stash_ != nullptr ? 0 : -FI_ENOMEM);
}

Engine::Stash Engine::make_stash(std::size_t size) noexcept {
  auto* const bytes = new (std::nothrow) std::byte[size];
  if (bytes == nullptr) return {spare_stash_.release(), {this}};
  return Stash(bytes);
}

bool Engine::prepare_wait() noexcept {
  Lock lock(mutex_);
  begin_round();
  run_ready();
  // No poll of readiness is needed: wait_fd() is readable at once if a socket is ready.
  waiting_ = ready_.empty() && endings_.empty() && register_hot().ok();
  if (!waiting_) return false;
  asleep_.add();
  watch_for_stalls();
  return waiting_ = arm_wires();
}

// This thread makes progress. Wake-ups are no longer needed unless another one sleeps.
void Engine::note_awake() noexcept {
  if (!asleep_.remove()) return;
  for (const WireWatch& wired : wires_) wired.wire->awake();
}

void Engine::expect_sleepers() noexcept {
  Lock lock(mutex_);
  sleepers_ = true;
  (void)register_hot();  // on failure, threads that call prepare_wait() are still woken
}

[[gnu::always_inline]] inline bool Engine::poll_hot() noexcept {
  bool found = false;
  for (Watch* watch : hot_) {
    // An earlier handler may have unwatched this socket.
    if (watch == nullptr || !is_hot(*watch)) continue;
    if (watch->awaited) {
      took_long();
      if (++watch->misses == kHotMisses) cool_down(*watch);
      continue;
    }
    watch->readable = watch->signalled = true;
    watch->received = false;
    watch->on_ready(*watch);
    if (!is_hot(*watch)) continue;
    if (watch->received) {
      watch->misses = 0;
      found = true;
    } else if (++watch->misses == kHotMisses) {
      cool_down(*watch);
    }
  }
  return found;
}

[[gnu::always_inline]] inline bool Engine::poll_wires() noexcept {
  bool found = false;
  for (WireWatch& wired : wires_) {
    --polls_left_;
    if (!wired.has_news()) continue;
    found = true;
    wired.latest = epoll_tick_;
    Watch& watch = wired.watch;
    if (wired.has_input()) watch.readable = true;
    (void)wired.take_room();
    if (!watch.ListHook<ReadyTag>::linked()) ready_.push_back(watch);
  }
  return found;
}

// Returns whether the thread should yield its processor: it has polled for a while in vain, and peers of this host that
// could answer may wait for one.
[[gnu::always_inline]] inline bool Engine::one_round() noexcept {
  begin_round();
  const bool woken = std::exchange(waiting_, false);
  if (asleep_.any()) note_awake();
  bool found = poll_wires();
  run_ready();
  if (!crowded_) found |= poll_hot();
  // Connections that always have data must not starve the others.
  const bool due = --polls_left_ <= 0 || took_long_;
  if (!found || due || polls_left_ % kPollsPerTick == 0) poll_sources(woken || crowded_ || due);
  if ((sleepers_ || asleep_.any() || automatic_) && !arm_wires()) wake();
  return due && !found && outnumbers_processors();
}

[[gnu::noinline, gnu::cold]] bool Engine::outnumbers_processors() noexcept {
  std::size_t processes = 1;
  for ([[maybe_unused]] const WireWatch& wired : wires_)
    if (++processes > processors()) return true;
  return false;
}

void Engine::poll_sources(bool due) noexcept {
  const std::int64_t tick = net::tick();
  const bool unread = hot_[0] == nullptr && (sleepers_ || (registered_ != silent_ && wires_.empty()));
  if (!due && !unread && tick == epoll_tick_) return;
  const bool all_silent = registered_ == silent_ || (registered_ == silent_ + listening_ && !wires_.empty());
  polls_left_ = all_silent ? kPollsOfSilence : kPollsPerEpoll;
  took_long_ = false;
  if (std::exchange(epoll_tick_, tick) != tick) skip_idle_wires();
  poll_epoll();
  run_ready();
  if (!endings_.empty()) [[unlikely]]
    end_connections();
}

void Engine::poll_wire(WireWatch& wired) noexcept {
  wired.latest = epoll_tick_;
  if (!wired.linked()) wires_.push_back(wired);
  if (!may_have_sleepers()) return;
  wired.arm();
  if (wired.has_news()) wake();
}

void Engine::on_region_closed() {
  mutex_.wait_for_others();
  if (!offers_memory_.load(std::memory_order_relaxed)) return;
  expect_groups();  // the caller need not be the thread that makes progress
  Lock lock(mutex_);
  for (WireWatch& wired : wires_)
    if (wired.wire->has_offers() && !wired.watch.ListHook<ReadyTag>::linked()) ready_.push_back(wired.watch);
  if (!ready_.empty()) run_queued(true);
  if (!endings_.empty()) poll_sources(true);
}

// False if a wire has input or room already: no wake-up follows for that, so the thread must not sleep.
bool Engine::arm_wires() noexcept {
  for (const WireWatch& wired : wires_) wired.arm();
  for (const WireWatch& wired : wires_)
    if (wired.has_news()) return false;
  return true;
}

void Engine::await_room(WireWatch& wired) noexcept {
  if (!std::exchange(wired.awaits_room, true)) wired.awaits_since = net::tick();
  poll_wire(wired);
  if (must_send_now()) watch_for_stalls();
}

void Engine::watch_for_stalls() noexcept {
  for (const WireWatch& wired : wires_)
    if (wired.awaits_room && wired.wire->lacks_overflow())
      return set_deadline(stall_timer_, net::now() + std::chrono::nanoseconds(kStall));
}

void Engine::on_stall() noexcept {
  for (WireWatch& wired : wires_) {
    if (!wired.awaits_room) continue;
    wired.wire->allow_overflow();
    if (wired.take_room() && !wired.watch.ListHook<ReadyTag>::linked()) ready_.push_back(wired.watch);
  }
}

void Engine::skip_idle_wires() noexcept {
  wires_.for_each([this](WireWatch& wired) {
    if (wired.awaits_room && epoll_tick_ - wired.awaits_since >= kStall) wired.wire->allow_overflow();
    if (epoll_tick_ - wired.latest < kSkipAfter || wired.awaits_room || wired.wire->has_offers()) return;
    wired.arm();
    if (!wired.has_news()) wired.unlink();
  });
}

void Engine::progress() noexcept {
  (void)one_round();
  pass_on_deferred();
}

void Engine::drive() noexcept {
  {
    // Locked without try_lock: a thread that posts in a tight loop would starve try_lock.
    Lock lock(mutex_);
    if (!one_round()) [[likely]]
      return;
  }
  ::sched_yield();
}

void Engine::poll_epoll() noexcept {
  if (!epoll_) return;  // nothing to watch yet
  epoll_event events[kBatch];
  int count;
  crowded_ = false;
  do {
    count = net::epoll_wait(epoll_.get(), events, kBatch);
    if (count > static_cast<int>(kHotSockets)) crowded_ = register_hot().ok();
    bool timer = false;
    for (int i = 0; i < count; ++i) {
      void* source = events[i].data.ptr;
      if (source == &timer_) {
        timer = true;
      } else if (source == &wake_) {
        net::event_drain(wake_.get());
      } else {
        Watch& watch = *static_cast<Watch*>(source);
        const std::uint32_t what = events[i].events;
        if (what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) watch.readable = watch.signalled = true;
        if (what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) watch.writable = true;
        if (what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) watch.hung = true;
        if (!watch.ListHook<ReadyTag>::linked()) ready_.push_back(watch);
      }
    }
    // Deadline handlers may destroy watches, so they run when no event of this batch is left to read.
    if (!timer) continue;
    timer_.drain();
    for (auto* queue : {&deadlines_, &keepalives_})
      queue->run(net::now(), [](Watch& watch) noexcept { watch.on_deadline(watch); });
  } while (count == kBatch);
}

void Engine::run_queued(bool all) noexcept {
  // Only what is queued now: an unfinished handler queues itself again, behind the others.
  List<Watch, ReadyTag> now;
  now.splice_back(ready_);
  const auto handle = [&] {
    Watch& watch = now.pop_front();
    watch.on_ready(watch);  // may destroy the watch
  };
  for (int i = 0; i < kHandlersPerCheck && !now.empty(); ++i) handle();
  if (now.empty()) [[likely]]
    return;
  const auto limit = net::now() + kTimeForHandlers;
  while (!now.empty() && (all || net::now() < limit))
    for (int i = 0; i < kHandlersPerCheck && !now.empty(); ++i) handle();
  if (now.empty()) return;
  // The others come first in the next round, before those that become ready now.
  now.splice_back(ready_);
  ready_.splice_back(now);
  leave_work();
}

Status Engine::watch(Watch& watch, int fd, bool output) noexcept {
  watch.fd = fd;
  watch.output = output;
  return add(watch);
}

Status Engine::watch_listener(Watch& watch, int fd) noexcept {
  const Status status = this->watch(watch, fd);
  watch.listens = status.ok();
  listening_ += watch.listens;
  return status;
}

Status Engine::watch_hot(Watch& watch, int fd) noexcept {
  watch.fd = fd;
  watch.output = false;
  // No round may follow that reads it speculatively, and a thread that sleeps has no other way to notice it.
  if (may_have_sleepers() || crowded_) return add(watch);
  return warm_up(watch) ? Status() : add(watch);
}

// Registration reports the present state, so earlier bytes are not missed.
Status Engine::add(Watch& watch) noexcept {
  const int result = net::epoll_add(epoll_.get(), watch.fd, interest(watch.output), &watch);
  watch.registered = result >= 0;
  registered_ += watch.registered;
  return Status(std::min(0, result));
}

Status Engine::register_hot() noexcept {
  for (Watch* watch : hot_)
    if (watch != nullptr && !watch->registered)
      if (Status status = add(*watch); !status.ok()) return status;
  return Status();
}

// Registering again reports the present state, so space that was freed meanwhile is not missed.
void Engine::await_output(Watch& watch) noexcept {
  watch.writable = false;
  if (!std::exchange(watch.output, true)) {
    if (watch.registered) {
      net::epoll_modify(epoll_.get(), watch.fd, interest(true), &watch);
    } else if (!add(watch).ok()) {
      watch.output = false;
      watch.writable = true;
      return make_ready(watch);  // the handler retries every round
    }
  }
  read_when_ready(watch);
}

Status Engine::replace(Watch& old, Watch& next) noexcept {
  next.fd = std::exchange(old.fd, -1);
  Status status;
  if (old.registered) {
    const int result = net::epoll_modify(epoll_.get(), next.fd, interest(next.output), &next);
    next.registered = std::exchange(old.registered, false);
    status = Status(std::min(0, result));
  } else {
    std::replace(hot_.begin(), hot_.end(), &old, &next);
    next.misses = 0;
  }
  unwatch(old);
  return status;
}

void Engine::unwatch(Watch& watch) noexcept {
  if (std::exchange(watch.registered, false)) {
    net::epoll_remove(epoll_.get(), watch.fd);
    --registered_;
    silent_ -= std::exchange(watch.silent, false);
    listening_ -= std::exchange(watch.listens, false);
  }
  watch.fd = -1;
  watch.readable = watch.writable = watch.hung = watch.signalled = false;
  watch.ListHook<ReadyTag>::unlink();
  clear_deadline(watch);
  forget_hot(watch);
}

void Engine::linger(UniqueFd socket) noexcept {
  if (lingering_ == nullptr) lingering_.reset(new (std::nothrow) LingeringSockets(*this));
  if (lingering_ != nullptr) lingering_->add(std::move(socket));
}

void Engine::end_later(Watch& watch) noexcept {
  forget_hot(watch);
  watch.ListHook<ReadyTag>::unlink();
  endings_.push_back(watch);
  took_long();
}

void Engine::leave_work() noexcept {
  took_long();
  waiting_ = false;
  if (may_have_sleepers()) wake();
}

// The next round handles what is left, because peers may connect and close again and again meanwhile.
void Engine::end_connections() noexcept {
  const auto limit = net::now() + kTimeForHandlers;
  do {
    List<Watch, ReadyTag> now;
    now.splice_back(endings_);
    poll_hot();
    poll_wires();
    poll_epoll();  // a socket that is no longer hot has been registered
    now.for_each([](Watch& watch) { watch.may_end = watch.readable = watch.signalled = true; });
    ready_.splice_back(now);
    run_ready();
  } while (!endings_.empty() && net::now() < limit);
  if (!endings_.empty()) leave_work();
}

void Engine::make_ready(Watch& watch) noexcept {
  if (watch.ListHook<ReadyTag>::linked()) return;
  ready_.push_back(watch);
  if (may_have_sleepers()) wake();
  waiting_ = false;
}

// False if the socket that it displaces cannot be registered.
bool Engine::warm_up(Watch& watch) noexcept {
  if (is_hot(watch)) return true;
  if (Watch* last = hot_.back(); last != nullptr && !last->registered && !add(*last).ok()) return false;
  std::move_backward(hot_.begin(), hot_.end() - 1, hot_.end());
  hot_[0] = &watch;
  watch.misses = 0;
  return true;
}

void Engine::read_when_ready(Watch& watch) noexcept {
  if (watch.awaited || !is_hot(watch) || (!watch.registered && !add(watch).ok())) return;
  watch.awaited = true;
  watch.misses = 0;
}

void Engine::cool_down(Watch& watch) noexcept {
  if (watch.registered || add(watch).ok())
    forget_hot(watch);
  else
    watch.misses = 0;
}

void Engine::silence(Watch& watch) noexcept {
  cool_down(watch);
  if (watch.registered && !std::exchange(watch.silent, true)) ++silent_;
}

void Engine::forget_hot(Watch& watch) noexcept {
  auto end = std::remove(hot_.begin(), hot_.end(), &watch);
  std::fill(end, hot_.end(), nullptr);
}

// Sends gathered messages, and messages that wait for room in shared memory. Messages that do not fit into a socket's
// buffer are lost. Nothing is sent with FI_THREAD_DOMAIN: without locks, an interrupted call cannot be detected.
bool Engine::send_last() noexcept {
  if (turns() == Turns::kDomain && !locking()) return true;
  if (!mutex_.try_lock_last()) return false;
  const std::lock_guard lock(mutex_, std::adopt_lock);
  exits_ = true;
  on_stall();
  for (Watch& watch : ready_)
    if (watch.sends) watch.on_ready(watch);
  exits_ = false;
  return true;
}

Status Engine::start_service_thread() {
  Lock lock(mutex_);
  const Status started = start_service([this]() noexcept {
    waiting_ = true;  // this thread slept: the round polls readiness
    progress();       // handlers that queued themselves again have signalled wait_fd()
    watch_for_stalls();
  });
  return started.ok() ? register_hot() : started;
}

}  // namespace weft::tcp
