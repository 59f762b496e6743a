// SPDX-License-Identifier: BSD-2-Clause
// The functions that the shared queues require of a provider's engine. Queues are templates on the engine, so making
// progress is a direct call; fi_domain(3) PROGRESS and fi_poll(3) (fi_trywait) govern.
#pragma once

#include <array>
#include <atomic>
#include <concepts>

namespace weft {

// `drive` and `prepare_wait` take the engine's own lock and are called with no queue lock held. The engine calls the
// queues' write/add/post with its lock held: engine lock before queue lock, always.
template <class E>
concept ProgressEngine = requires(E& engine) {
  // All progress that is possible now, without blocking.
  { engine.drive() }
  noexcept;
  // Flushes staged messages and collects readiness, so that from now on wait_fd() reports everything new. false: work
  // is left, sleeping now could hang.
  { engine.prepare_wait() }
  noexcept->std::same_as<bool>;
  // Readable (poll, epoll) as soon as drive() has something to do. Negative: -errno.
  { engine.wait_fd() } -> std::convertible_to<int>;
};

// All descriptors that become readable with work for an engine: most engines have one, those with wait_fds() several,
// which they do not combine because the kernel limits how deep and how often epoll descriptors are nested.
template <class E>
auto wait_fds_of(E& engine) noexcept {
  if constexpr (requires { engine.wait_fds(); })
    return engine.wait_fds();
  else
    return std::array{engine.wait_fd()};
}

// The application fetched a descriptor that it may sleep on without fi_trywait, as old programs do. Engines that delay
// work until prepare_wait() have this hook.
template <class E>
void expect_sleepers(E& engine) noexcept {
  if constexpr (requires { engine.expect_sleepers(); }) engine.expect_sleepers();
}

// Threads outside the threading model of the engine's domain are going to drive it. Engines without locks until then
// have this hook.
template <class E>
void expect_others(E& engine) {
  if constexpr (requires { engine.expect_others(); }) engine.expect_others();
}

// Whether one more queue may watch the engine's descriptor, until dismiss_watcher(). The kernel wakes all of them, and
// limits the paths from a descriptor through an engine's and a queue's to an application's epoll set to 100 (EINVAL);
// epoll_ctl(2). Beyond kMostWatchers the result is false, and a thread drives the engine from then on. This is for
// engines that have sockets: a layer above them sleeps on the queues below, and those are counted.
inline constexpr unsigned kMostWatchers = 64;
template <class E>
void dismiss_watcher(E& engine) noexcept {
  if constexpr (requires { engine.watchers; }) engine.watchers.fetch_sub(1, std::memory_order_relaxed);
}
template <class E>
bool admit_watcher(E& engine) {
  if constexpr (requires { engine.watchers; }) {
    if (engine.watchers.fetch_add(1, std::memory_order_relaxed) < kMostWatchers) return true;
    expect_others(engine);
    if (!engine.start_service_thread().ok()) return true;
    dismiss_watcher(engine);
    return false;
  }
  return true;
}

// An application that reads a completion may make no further call for a long time. An engine has this hook if a
// completion can be readable before its message has left the process.
template <class E>
bool needs_progress(const E& engine) noexcept {
  if constexpr (requires { engine.needs_progress(); })
    return engine.needs_progress();
  else
    return false;
}

// An engine with this constant delays no work: its descriptor shows all work, so a thread that is going to sleep may
// poll it first.
template <class E>
inline constexpr bool shows_all_work = requires {
  requires E::kShowsAllWork;
};

// Progress of queues and counters: a round of the engine, then the operations that it made due (deferred_work.h).
template <class E>
void make_progress(E& engine) noexcept {
  engine.drive();
  if constexpr (requires { engine.deferred(); }) engine.deferred().run();
}
template <class E>
bool may_sleep(E& engine) noexcept {
  if constexpr (requires { engine.deferred(); }) {
    if (engine.deferred().due()) return false;
  }
  return engine.prepare_wait();
}

}  // namespace weft
