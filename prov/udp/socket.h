// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's view of the operating system: every socket, epoll and event call it makes; udp(7), ip(7), ipv6(7).
//
// Every function returns a value >= 0, or -errno; none blocks, EINTR never leaks out.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>

struct epoll_event;

namespace weft::udp::net {

// Sockets are non-blocking, closed on exec, and never of both families.
int open_datagram(int family) noexcept;
int bind(int fd, const sockaddr* address, socklen_t len) noexcept;
int getsockname(int fd, sockaddr* address, socklen_t* len) noexcept;
// The local address that packets to `peer` would bear; asks the routing table, sends nothing.
int route(const sockaddr* peer, socklen_t peer_len, sockaddr* local, socklen_t* local_len) noexcept;
int set_option(int fd, int level, int name, int value) noexcept;

ssize_t send(int fd, const msghdr& message) noexcept;
// How many of them the kernel took.
int send_many(int fd, mmsghdr* messages, unsigned count) noexcept;
// The datagrams received, or -EAGAIN.
int receive_many(int fd, mmsghdr* messages, unsigned count) noexcept;

// The interface that group messages leave by, 0 for the system's choice; how far they travel.
int set_multicast_interface(int fd, int family, unsigned interface) noexcept;
int set_multicast_hops(int fd, int family, int hops) noexcept;
// Binds to a group's address; `interface` is the scope of link-local ones.
int bind_group(int fd, const sockaddr* group, socklen_t len, unsigned interface) noexcept;
// Membership in `group` (a sockaddr of the socket's family) on that interface only.
int join_group(int fd, const sockaddr* group, unsigned interface) noexcept;

int epoll_create() noexcept;
int epoll_add(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept;
int epoll_modify(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept;
int epoll_remove(int epoll_fd, int fd) noexcept;
// What is ready now; never waits.
int epoll_wait(int epoll_fd, epoll_event* events, int max) noexcept;

// A descriptor that is readable from signal to drain.
int event_open() noexcept;
void event_signal(int fd) noexcept;
void event_drain(int fd) noexcept;

}  // namespace weft::udp::net
