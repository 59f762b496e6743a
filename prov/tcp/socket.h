// SPDX-License-Identifier: BSD-2-Clause
// The seam between the tcp provider and the operating system: every socket, epoll, timer and clock call is made here,
// in base/socket.h or in base/readiness.h. tests/sim links another implementation of all three, with pipes in memory
// and a clock that tests advance.
//
// Every function returns a value >= 0, or -errno; none blocks, raises SIGPIPE or returns -EINTR.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>

#include "base/readiness.h"
#include "base/socket.h"

namespace weft::tcp::net {

using namespace weft::net;

ssize_t send(int fd, const void* data, std::size_t len) noexcept;
ssize_t sendv(int fd, const iovec* iov, int count) noexcept;
// 0: the peer has closed its side.
ssize_t recv(int fd, void* data, std::size_t len) noexcept;
ssize_t recvv(int fd, const iovec* iov, int count) noexcept;

// Sockets are non-blocking and closed on exec.
int open_stream(int family) noexcept;
// -EINPROGRESS: the socket becomes writable once it is connected or has failed.
int connect(int fd, const sockaddr* address, socklen_t len) noexcept;
// The result of a connect in progress: 0 or -errno (SO_ERROR).
int connect_result(int fd) noexcept;
int listen(int fd, int backlog) noexcept;
int accept(int fd, sockaddr* address, socklen_t* len) noexcept;
// Whether accept would find a connection, at a tenth of the cost of an accept that finds none.
bool acceptable(int fd) noexcept;
int shutdown(int fd, int how) noexcept;
// Whether the peer's system has acknowledged all bytes that were sent.
bool is_delivered(int fd) noexcept;
// Whether bytes wait in this system to be sent.
bool has_unsent(int fd) noexcept;
// The peer's system has acknowledged nothing for so long, although bytes and probes were sent several times.
bool is_unanswered(int fd, std::chrono::seconds time) noexcept;
// Nothing has arrived that was not read, not even the peer's close.
bool is_read_empty(int fd) noexcept;

// A datagram socket of unix(7), to which the system gives a name, and which names the sender of each datagram.
int open_mailbox() noexcept;

}  // namespace weft::tcp::net
