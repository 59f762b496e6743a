// SPDX-License-Identifier: BSD-2-Clause
// What the shared queues ask of a software provider's engine. Queues are templates on the engine, so driving progress
// is a direct call; fi_domain(3) PROGRESS and fi_poll(3) (fi_trywait) govern the meaning.
#pragma once

#include <array>
#include <concepts>

namespace weft {

// `drive` and `prepare_wait` take the engine's own lock and are called with no queue lock held. The engine calls the
// queues' write/add/post with its lock held: engine lock before queue lock, always.
template <class E>
concept ProgressEngine = requires(E& engine) {
  // All progress that is possible now, without blocking.
  { engine.drive() }
  noexcept;
  // Flushes what is staged and harvests readiness, so that from now on wait_fd() tells of everything new.
  // false: work is left, sleeping now could hang.
  { engine.prepare_wait() }
  noexcept->std::same_as<bool>;
  // Readable (poll, epoll) as soon as drive() has something to do.
  { engine.wait_fd() } -> std::convertible_to<int>;
};

// All descriptors that become readable with work for an engine: most have one, those with wait_fds() several, which
// they do not combine by themselves because the kernel limits how deep and how often epoll descriptors are nested.
template <class E>
auto wait_fds_of(const E& engine) noexcept {
  if constexpr (requires { engine.wait_fds(); })
    return engine.wait_fds();
  else
    return std::array{engine.wait_fd()};
}

// The application has got hold of a descriptor that it may sleep on without fi_trywait, as old programs do. Engines
// that put off work until prepare_wait() have this hook.
template <class E>
void expect_sleepers(E& engine) noexcept {
  if constexpr (requires { engine.expect_sleepers(); }) engine.expect_sleepers();
}

// Threads that the threading model of the engine's domain does not speak of are going to drive it. Engines that do
// without locks until then have this hook.
template <class E>
void expect_others(E& engine) {
  if constexpr (requires { engine.expect_others(); }) engine.expect_others();
}

// Whoever reads a completion may stop calling for a while, or for good. An engine has this hook if completions of its
// can be there before what they stand for has left the process.
template <class E>
bool owes_progress(const E& engine) noexcept {
  if constexpr (requires { engine.owes_progress(); })
    return engine.owes_progress();
  else
    return false;
}

// An engine with this constant puts nothing off: all there is to do shows in its descriptor, so whoever is going to
// sleep may try that first.
template <class E>
inline constexpr bool shows_all_work = requires {
  requires E::kShowsAllWork;
};

// What queues and counters do to make progress: a round of the engine's, then what that made due (deferred_work.h).
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
