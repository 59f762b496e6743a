// SPDX-License-Identifier: BSD-2-Clause
// The calls to the operating system that sockets of every kind have in common; socket(7).
//
// Every function returns a value >= 0 or -errno; none blocks or returns -EINTR.
#pragma once

#include <sys/socket.h>

#include <cerrno>

namespace weft::net {

// The result of `call`, or -errno. Repeats a call that a signal interrupted: the calls do not block, so that is rare.
template <class Call>
auto checked(Call call) noexcept -> decltype(call()) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result < 0 ? -errno : result;
}

// setsockopt with a value of any type.
template <class T>
int set_value(int fd, int level, int name, const T& value) noexcept {
  return checked([&] { return ::setsockopt(fd, level, name, &value, sizeof value); });
}

int bind(int fd, const sockaddr* address, socklen_t len) noexcept;
int getsockname(int fd, sockaddr* address, socklen_t* len) noexcept;
int getpeername(int fd, sockaddr* address, socklen_t* len) noexcept;
// The source address that packets to `peer` would have; reads the routing table and sends nothing.
int route(const sockaddr* peer, socklen_t peer_len, sockaddr* local, socklen_t* local_len) noexcept;
int set_option(int fd, int level, int name, int value) noexcept;

}  // namespace weft::net
