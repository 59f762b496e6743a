// SPDX-License-Identifier: BSD-2-Clause
// The seam to Linux; see socket.h.
#include "tcp/socket.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"

namespace weft::tcp::net {
namespace {

// Repeats a call that a signal interrupted; these do not block, so that is rare.
template <class Call>
auto checked(Call call) noexcept -> decltype(call()) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result < 0 ? -errno : result;
}

constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;

msghdr header(const iovec* iov, int count) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(iov);
  message.msg_iovlen = static_cast<std::size_t>(count);
  return message;
}

}  // namespace

ssize_t send(int fd, const void* data, std::size_t len) noexcept {
  return checked([&] { return ::send(fd, data, len, kFlags); });
}

ssize_t sendv(int fd, const iovec* iov, int count) noexcept {
  const msghdr message = header(iov, count);
  return checked([&] { return ::sendmsg(fd, &message, kFlags); });
}

ssize_t recv(int fd, void* data, std::size_t len) noexcept {
  return checked([&] { return ::recv(fd, data, len, kFlags); });
}

ssize_t recvv(int fd, const iovec* iov, int count) noexcept {
  msghdr message = header(iov, count);
  return checked([&] { return ::recvmsg(fd, &message, kFlags); });
}

int open_stream(int family) noexcept {
  return checked([&] { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

int bind(int fd, const sockaddr* address, socklen_t len) noexcept {
  return checked([&] { return ::bind(fd, address, len); });
}

int connect(int fd, const sockaddr* address, socklen_t len) noexcept {
  // Not repeated: an interrupted connect goes on by itself.
  if (::connect(fd, address, len) == 0) return 0;
  return errno == EINTR ? -EINPROGRESS : -errno;
}

int connect_result(int fd) noexcept {
  int error = 0;
  socklen_t len = sizeof error;
  const int got = checked([&] { return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len); });
  return got < 0 ? got : -error;
}

int listen(int fd, int backlog) noexcept {
  return checked([&] { return ::listen(fd, backlog); });
}

int accept(int fd, sockaddr* address, socklen_t* len) noexcept {
  return checked([&] { return ::accept4(fd, address, len, SOCK_NONBLOCK | SOCK_CLOEXEC); });
}

int shutdown(int fd, int how) noexcept {
  return checked([&] { return ::shutdown(fd, how); });
}

int getsockname(int fd, sockaddr* address, socklen_t* len) noexcept {
  return checked([&] { return ::getsockname(fd, address, len); });
}

int getpeername(int fd, sockaddr* address, socklen_t* len) noexcept {
  return checked([&] { return ::getpeername(fd, address, len); });
}

int route(const sockaddr* peer, socklen_t peer_len, sockaddr* local, socklen_t* local_len) noexcept {
  UniqueFd datagram(::socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!datagram) return -errno;
  const int result = checked([&] { return ::connect(datagram.get(), peer, peer_len); });
  return result < 0 ? result : net::getsockname(datagram.get(), local, local_len);
}

int set_option(int fd, int level, int name, int value) noexcept {
  return checked([&] { return ::setsockopt(fd, level, name, &value, sizeof value); });
}

int epoll_create() noexcept {
  return checked([&] { return ::epoll_create1(EPOLL_CLOEXEC); });
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
  return checked([&] { return ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); });
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
  return checked([&] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
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

}  // namespace weft::tcp::net
