// SPDX-License-Identifier: BSD-2-Clause
// Calls that all sockets have in common, on Linux; see socket.h.
#include "base/socket.h"

#include "base/unique_fd.h"

namespace weft::net {

int bind(int fd, const sockaddr* address, socklen_t len) noexcept {
  return checked([&] { return ::bind(fd, address, len); });
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
  return set_value(fd, level, name, value);
}

}  // namespace weft::net
