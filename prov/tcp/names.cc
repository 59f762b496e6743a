// SPDX-License-Identifier: BSD-2-Clause
// Sockets of endpoints; see names.h.
#include "tcp/names.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "tcp/socket.h"

namespace weft::tcp {
namespace {

// Tries each port of the range once.
int bind_in_range(int fd, Address& local, const Parameters& parameters) noexcept {
  int result = -FI_EADDRINUSE;
  for (unsigned port = parameters.port_low; port <= parameters.port_high; ++port) {
    local.set_port(static_cast<std::uint16_t>(port));
    result = net::bind(fd, local.data(), local.size());
    if (result != -FI_EADDRINUSE) break;
  }
  return result;
}

}  // namespace

Result<UniqueFd> open_bound(Address& local, const Parameters& parameters, bool passive) noexcept {
  const int fd = net::open_stream(local.family());
  if (fd < 0) return failure(Status(fd));
  UniqueFd socket(fd);
  // With SO_REUSEADDR a service can restart at once although connections of its port linger, if those have it too. But
  // then two sockets that do not listen yet may get the same port. So a port that is chosen here is one that is free
  // without the option, or where connections linger, and its holder gets the option when it listens.
  const bool fixed = local.port() != 0;
  const auto share_port = [fd](bool shared) { return net::set_option(fd, SOL_SOCKET, SO_REUSEADDR, shared ? 1 : 0); };
  int result = fixed ? share_port(true) : 0;
  const bool ranged = passive && !fixed && parameters.port_low != 0;
  if (result >= 0) result = ranged ? bind_in_range(fd, local, parameters) : net::bind(fd, local.data(), local.size());
  if (ranged && result == -FI_EADDRINUSE && share_port(true) >= 0) {
    result = bind_in_range(fd, local, parameters);
    share_port(false);
  }
  if (result < 0) return failure(Status(result));
  local = name_of(fd, local);
  return socket;
}

Result<UniqueFd> open_towards(const Address& peer, const Address& local, SpareSocket& spare) noexcept {
  const int fd = spare.take(local.family());
  if (fd < 0) return failure(Status(fd));
  UniqueFd socket(fd);
  // To an address of this host the kernel connects from that same address by default.
  if (local.is_any() || local.same_host(peer)) return socket;
  // The port is chosen when the destination is known, so one port serves many destinations.
  Address from = local;
  from.set_port(0);
  net::set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (int result = net::bind(fd, from.data(), from.size()); result < 0) return failure(Status(result));
  return socket;
}

void prepare_stream(int fd, const Parameters& parameters) noexcept {
  if (parameters.nodelay) net::set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

void prepare_listener(int fd, const Parameters& parameters) noexcept {
  net::set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  prepare_stream(fd, parameters);
  if (parameters.keepalive_s != 0) enable_keepalive(fd, parameters.keepalive_s);
}

void enable_keepalive(int fd, int idle_s) noexcept {
  constexpr int kProbes = 3;
  keep_alive(fd, idle_s, std::max(idle_s / kProbes, 1), kProbes);
}

void keep_alive(int fd, int idle_s, int interval_s, int probes) noexcept {
  net::set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  net::set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
  net::set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
  net::set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes);
}

Address name_of(int fd, const Address& otherwise) noexcept {
  sockaddr_storage name;
  socklen_t len = sizeof name;
  if (fd < 0 || net::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &len) < 0) return otherwise;
  return Address::from(&name, len).value_or(otherwise);
}

Address peer_of(int fd) noexcept {
  sockaddr_storage name;
  socklen_t len = sizeof name;
  if (fd < 0 || net::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &len) < 0) return {};
  return Address::from(&name, len).value_or(Address());
}

ssize_t discard_input(int fd, std::span<std::byte> scratch, int most) noexcept {
  ssize_t got = 1;
  for (int i = 0; i < most && got > 0; ++i) got = net::recv(fd, scratch.data(), scratch.size());
  return got;
}

void close_gently(UniqueFd& socket) noexcept {
  constexpr int kMostReads = 16;  // a peer that never stops sending gets a reset
  std::byte unwanted[4096];
  net::shutdown(socket.get(), SHUT_WR);
  (void)discard_input(socket.get(), unwanted, kMostReads);
  socket.reset();
}

}  // namespace weft::tcp
