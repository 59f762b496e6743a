// SPDX-License-Identifier: BSD-2-Clause
// Readiness on Linux; see readiness.h.
#include "base/readiness.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/socket.h"
#include "base/standard_descriptors.h"

namespace weft::net {

int epoll_create() noexcept {
  return checked([&] { return above_standard(::epoll_create1(EPOLL_CLOEXEC)); });
}

int epoll_add(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept {
  epoll_event event{.events = events, .data = {.ptr = data}};
  return checked([&] { return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event); });
}

int epoll_modify(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept {
  epoll_event event{.events = events, .data = {.ptr = data}};
  return checked([&] { return ::epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event); });
}

int epoll_remove(int epoll_fd, int fd) noexcept {
  epoll_event unused{};
  return checked([&] { return ::epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, &unused); });
}

int epoll_wait(int epoll_fd, epoll_event* events, int max) noexcept {
  return checked([&] { return ::epoll_wait(epoll_fd, events, max, 0); });
}

int timer_open() noexcept {
  return checked([&] { return above_standard(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)); });
}

int timer_arm(int fd, Clock::time_point at) noexcept {
  using namespace std::chrono;
  // steady_clock is CLOCK_MONOTONIC on Linux. An all-zero time would disarm the timer.
  const auto ns = std::max<nanoseconds::rep>(1, duration_cast<nanoseconds>(at.time_since_epoch()).count());
  const itimerspec when{.it_interval = {}, .it_value = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000}};
  return checked([&] { return ::timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, nullptr); });
}

void timer_drain(int fd) noexcept {
  event_drain(fd);
}

int event_open() noexcept {
  return checked([&] { return above_standard(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); });
}

void event_signal(int fd) noexcept {
  const std::uint64_t one = 1;
  // Fails only when the counter is full: then it is signalled already.
  (void)checked([&] { return ::write(fd, &one, sizeof one); });
}

void event_drain(int fd) noexcept {
  std::uint64_t count;
  (void)checked([&] { return ::read(fd, &count, sizeof count); });
}

Clock::time_point now() noexcept {
  return Clock::now();
}

std::int64_t tick() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace weft::net
