// SPDX-License-Identifier: BSD-2-Clause
// The system calls; see socket.h.
#include "udp/socket.h"

#include <poll.h>

#include "base/standard_descriptors.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29  // Linux 4.20
#endif

namespace weft::udp::net {

constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;

int open_datagram(int family) noexcept {
  return checked([&] { return above_standard(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); });
}

ssize_t send(int fd, const msghdr& message) noexcept {
  return checked([&] { return ::sendmsg(fd, &message, kFlags); });
}

int send_many(int fd, mmsghdr* messages, unsigned count) noexcept {
  return checked([&] { return ::sendmmsg(fd, messages, count, kFlags); });
}

ssize_t send(int fd, const void* bytes, std::size_t len, const sockaddr* to, socklen_t to_len) noexcept {
  return checked([&] { return ::sendto(fd, bytes, len, kFlags, to, to_len); });
}

ssize_t receive(int fd, void* bytes, std::size_t size, sockaddr_in6& source, socklen_t& source_len) noexcept {
  source_len = sizeof source;
  auto* const name = reinterpret_cast<sockaddr*>(&source);
  return checked([&] { return ::recvfrom(fd, bytes, size, MSG_DONTWAIT | MSG_TRUNC, name, &source_len); });
}

bool is_silent(int fd) noexcept {
  pollfd state{fd, POLLIN, 0};
  return checked([&] { return ::poll(&state, 1, 0); }) == 0;
}

int receive_many(int fd, mmsghdr* messages, unsigned count) noexcept {
  if (count > 1) return checked([&] { return ::recvmmsg(fd, messages, count, MSG_DONTWAIT, nullptr); });
  const ssize_t got = checked([&] { return ::recvmsg(fd, &messages->msg_hdr, MSG_DONTWAIT); });
  if (got < 0) return static_cast<int>(got);
  messages->msg_len = static_cast<unsigned>(got);
  return 1;
}

int set_multicast_interface(int fd, int family, unsigned interface) noexcept {
  if (family == AF_INET6) return set_value(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface));
  const ip_mreqn request{.imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = static_cast<int>(interface)};
  return set_value(fd, IPPROTO_IP, IP_MULTICAST_IF, request);
}

int set_multicast_hops(int fd, int family, int hops) noexcept {
  if (family == AF_INET6) return set_value(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops);
  return set_value(fd, IPPROTO_IP, IP_MULTICAST_TTL, hops);
}

int bind_group(int fd, const sockaddr* group, socklen_t len, unsigned interface) noexcept {
  if (group->sa_family != AF_INET6) return net::bind(fd, group, len);
  sockaddr_in6 scoped = *reinterpret_cast<const sockaddr_in6*>(group);
  if (scoped.sin6_scope_id == 0) scoped.sin6_scope_id = interface;
  return net::bind(fd, reinterpret_cast<const sockaddr*>(&scoped), sizeof scoped);
}

int share_address(int fd, bool shared) noexcept {
  return set_value(fd, SOL_SOCKET, SO_REUSEADDR, static_cast<int>(shared));
}

int refuse_groups_of_others(int fd, int family) noexcept {
  if (family == AF_INET6) return set_value(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
  return set_value(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
}

int join_group(int fd, const sockaddr* group, unsigned interface) noexcept {
  refuse_groups_of_others(fd, group->sa_family);
  if (group->sa_family == AF_INET6) {
    const ipv6_mreq request{reinterpret_cast<const sockaddr_in6*>(group)->sin6_addr, interface};
    return set_value(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, request);
  }
  const ip_mreqn request{.imr_multiaddr = reinterpret_cast<const sockaddr_in*>(group)->sin_addr,
                         .imr_address = {},
                         .imr_ifindex = static_cast<int>(interface)};
  return set_value(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, request);
}

}  // namespace weft::udp::net
