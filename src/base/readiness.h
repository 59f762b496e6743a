// SPDX-License-Identifier: BSD-2-Clause
// Detects that an engine has work: a set of descriptors, the timers and events that can be in it, and the clock;
// epoll(7), timerfd_create(2), eventfd(2), clock_gettime(2).
//
// Functions with a result return a value >= 0 or -errno; none blocks or returns -EINTR.
#pragma once

#include <cstdint>

#include "base/deadline.h"

struct epoll_event;

namespace weft::net {

int epoll_create() noexcept;
int epoll_add(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept;
// The descriptor stays registered, for another owner.
int epoll_modify(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept;
int epoll_remove(int epoll_fd, int fd) noexcept;
// Returns what is ready now, without waiting.
int epoll_wait(int epoll_fd, epoll_event* events, int max) noexcept;

// A descriptor that becomes readable at an absolute time.
int timer_open() noexcept;
int timer_arm(int fd, Clock::time_point at) noexcept;
void timer_drain(int fd) noexcept;

// A descriptor that is readable from event_signal() to event_drain().
int event_open() noexcept;
void event_signal(int fd) noexcept;
void event_drain(int fd) noexcept;

Clock::time_point now() noexcept;
// The kernel's coarse clock in nanoseconds, which advances every 1 to 10 ms and costs a fifth of now().
std::int64_t tick() noexcept;

}  // namespace weft::net
