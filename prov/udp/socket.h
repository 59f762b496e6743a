// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's interface to the operating system: with base/socket.h and base/readiness.h every socket, epoll and
// event call that it makes; udp(7), ip(7), ipv6(7).
//
// Every function returns a value >= 0 or -errno; none blocks or returns -EINTR.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/readiness.h"
#include "base/socket.h"

namespace weft::udp::net {

using namespace weft::net;

// Sockets are non-blocking, closed on exec, and never of both families.
int open_datagram(int family) noexcept;

ssize_t send(int fd, const msghdr& message) noexcept;
// A message in one buffer.
ssize_t send(int fd, const void* bytes, std::size_t len, const sockaddr* to, socklen_t to_len) noexcept;
// Returns the number of messages that the kernel accepted.
int send_many(int fd, mmsghdr* messages, unsigned count) noexcept;
// Returns the length of the next datagram, even if it is longer than the buffer, or -EAGAIN.
ssize_t receive(int fd, void* bytes, std::size_t size, sockaddr_in6& source, socklen_t& source_len) noexcept;
// Whether the socket has nothing to receive.
bool is_silent(int fd) noexcept;
// Returns the number of datagrams received, or -EAGAIN.
int receive_many(int fd, mmsghdr* messages, unsigned count) noexcept;

// The interface that group messages leave by (0: chosen by the system), and the number of hops that they may travel.
int set_multicast_interface(int fd, int family, unsigned interface) noexcept;
int set_multicast_hops(int fd, int family, int hops) noexcept;
// `shared`: other sockets with this option may bind the same address; socket(7), SO_REUSEADDR.
int share_address(int fd, bool shared) noexcept;
// A socket at the wildcard address receives what is sent to the groups that it joins, and not to those of all sockets.
int refuse_groups_of_others(int fd, int family) noexcept;
// Binds to a group's address; `interface` is the scope of link-local ones.
int bind_group(int fd, const sockaddr* group, socklen_t len, unsigned interface) noexcept;
// Membership in `group` (a sockaddr of the socket's family) on that interface only.
int join_group(int fd, const sockaddr* group, unsigned interface) noexcept;

}  // namespace weft::udp::net
