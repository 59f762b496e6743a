// SPDX-License-Identifier: BSD-2-Clause
// The seam between the tcp provider and the operating system: every socket, epoll, timer and clock call it makes.
// tests/sim links another implementation, with pipes in memory and a clock that a test turns.
//
// Every function returns a value >= 0, or -errno; none blocks, none raises SIGPIPE, EINTR never leaks out.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "base/deadline.h"

struct epoll_event;

namespace weft::tcp::net {

ssize_t send(int fd, const void* data, std::size_t len) noexcept;
ssize_t sendv(int fd, const iovec* iov, int count) noexcept;
// 0: the peer has closed its side.
ssize_t recv(int fd, void* data, std::size_t len) noexcept;
ssize_t recvv(int fd, const iovec* iov, int count) noexcept;

// Sockets are non-blocking and closed on exec.
int open_stream(int family) noexcept;
int bind(int fd, const sockaddr* address, socklen_t len) noexcept;
// -EINPROGRESS: the socket becomes writable once it is connected or has failed.
int connect(int fd, const sockaddr* address, socklen_t len) noexcept;
// What became of a connect in progress: 0 or -errno (SO_ERROR).
int connect_result(int fd) noexcept;
int listen(int fd, int backlog) noexcept;
// `len` may be null together with `address`.
int accept(int fd, sockaddr* address, socklen_t* len) noexcept;
int shutdown(int fd, int how) noexcept;
int getsockname(int fd, sockaddr* address, socklen_t* len) noexcept;
int getpeername(int fd, sockaddr* address, socklen_t* len) noexcept;
// The local address that packets to `peer` would bear; asks the routing table, sends nothing.
int route(const sockaddr* peer, socklen_t peer_len, sockaddr* local, socklen_t* local_len) noexcept;
int set_option(int fd, int level, int name, int value) noexcept;

int epoll_create() noexcept;
int epoll_add(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept;
// The descriptor stays registered, for another owner.
int epoll_modify(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept;
int epoll_remove(int epoll_fd, int fd) noexcept;
// What is ready now; never waits.
int epoll_wait(int epoll_fd, epoll_event* events, int max) noexcept;

// A descriptor that becomes readable at an absolute time.
int timer_open() noexcept;
int timer_arm(int fd, Clock::time_point at) noexcept;
void timer_drain(int fd) noexcept;

// A descriptor that is readable from signal to drain.
int event_open() noexcept;
void event_signal(int fd) noexcept;
void event_drain(int fd) noexcept;

Clock::time_point now() noexcept;

}  // namespace weft::tcp::net
