// SPDX-License-Identifier: BSD-2-Clause
// The seam to Linux; see socket.h.
#include "udp/socket.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29  // Linux 4.20
#endif

namespace weft::udp::net {
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

template <class T>
int set(int fd, int level, int name, const T& value) noexcept {
  return checked([&] { return ::setsockopt(fd, level, name, &value, sizeof value); });
}

constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;

}  // namespace

int open_datagram(int family) noexcept {
  const int fd = checked([&] { return ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
  if (fd >= 0 && family == AF_INET6) set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  return fd;
}

int bind(int fd, const sockaddr* address, socklen_t len) noexcept {
  return checked([&] { return ::bind(fd, address, len); });
}

int getsockname(int fd, sockaddr* address, socklen_t* len) noexcept {
  return checked([&] { return ::getsockname(fd, address, len); });
}

int route(const sockaddr* peer, socklen_t peer_len, sockaddr* local, socklen_t* local_len) noexcept {
  UniqueFd datagram(::socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!datagram) return -errno;
  const int result = checked([&] { return ::connect(datagram.get(), peer, peer_len); });
  return result < 0 ? result : net::getsockname(datagram.get(), local, local_len);
}

int set_option(int fd, int level, int name, int value) noexcept {
  return set(fd, level, name, value);
}

ssize_t send(int fd, const msghdr& message) noexcept {
  return checked([&] { return ::sendmsg(fd, &message, kFlags); });
}

int send_many(int fd, mmsghdr* messages, unsigned count) noexcept {
  return checked([&] { return ::sendmmsg(fd, messages, count, kFlags); });
}

int receive_many(int fd, mmsghdr* messages, unsigned count) noexcept {
  if (count > 1) return checked([&] { return ::recvmmsg(fd, messages, count, MSG_DONTWAIT, nullptr); });
  const ssize_t got = checked([&] { return ::recvmsg(fd, &messages->msg_hdr, MSG_DONTWAIT); });
  if (got < 0) return static_cast<int>(got);
  messages->msg_len = static_cast<unsigned>(got);
  return 1;
}

int set_multicast_interface(int fd, int family, unsigned interface) noexcept {
  if (family == AF_INET6) return set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface));
  const ip_mreqn request{.imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = static_cast<int>(interface)};
  return set(fd, IPPROTO_IP, IP_MULTICAST_IF, request);
}

int set_multicast_hops(int fd, int family, int hops) noexcept {
  if (family == AF_INET6) return set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops);
  return set(fd, IPPROTO_IP, IP_MULTICAST_TTL, hops);
}

int bind_group(int fd, const sockaddr* group, socklen_t len, unsigned interface) noexcept {
  if (group->sa_family != AF_INET6) return net::bind(fd, group, len);
  sockaddr_in6 scoped = *reinterpret_cast<const sockaddr_in6*>(group);
  if (scoped.sin6_scope_id == 0) scoped.sin6_scope_id = interface;
  return net::bind(fd, reinterpret_cast<const sockaddr*>(&scoped), sizeof scoped);
}

int join_group(int fd, const sockaddr* group, unsigned interface) noexcept {
  // Otherwise the memberships of every other socket on the host would count as well.
  if (group->sa_family == AF_INET6) {
    set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    const ipv6_mreq request{reinterpret_cast<const sockaddr_in6*>(group)->sin6_addr, interface};
    return set(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, request);
  }
  set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
  const ip_mreqn request{.imr_multiaddr = reinterpret_cast<const sockaddr_in*>(group)->sin_addr,
                         .imr_address = {},
                         .imr_ifindex = static_cast<int>(interface)};
  return set(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, request);
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

}  // namespace weft::udp::net
