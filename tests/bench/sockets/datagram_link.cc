// SPDX-License-Identifier: BSD-2-Clause
// Messages as plain UDP datagrams; see datagram_link.h.
#include "sockets/datagram_link.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "process/process_pair.h"

namespace bench {
namespace {

constexpr int kReceiveBuffer = 1 << 20;  // as the udp provider does

int open_socket() {
  return static_cast<int>(check("socket", ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
}

template <class T>
void set(int fd, int level, int option, const T& value) {
  check("setsockopt", setsockopt(fd, level, option, &value, sizeof value));
}

}  // namespace

DatagramLink::DatagramLink(const Measurement& m, Channel& channel)
    : fd_(open_socket()), outgoing_(m.size), incoming_(m.size) {
  own_.sin_family = AF_INET;
  if (inet_pton(AF_INET, m.address.c_str(), &own_.sin_addr) != 1) fail(m.address + " is no IPv4 address");
  set(fd_, SOL_SOCKET, SO_RCVBUF, kReceiveBuffer);
  check("bind", bind(fd_, reinterpret_cast<sockaddr*>(&own_), sizeof own_));
  socklen_t length = sizeof own_;
  check("getsockname", getsockname(fd_, reinterpret_cast<sockaddr*>(&own_), &length));
  channel.put(own_.sin_port);
  peer_ = own_;
  peer_.sin_port = static_cast<in_port_t>(channel.get());
}

DatagramLink::~DatagramLink() {
  close(fd_);
}

void DatagramLink::send(std::uint64_t word) {
  std::memcpy(outgoing_.data(), &word, sizeof word);
  for (;;) {
    const ssize_t n = sendto(fd_, outgoing_.data(), outgoing_.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&peer_), sizeof peer_);
    if (n >= 0) return;
    if (errno != EAGAIN && errno != ENOBUFS) check("sendto", n);
  }
}

std::optional<std::uint64_t> DatagramLink::try_receive() {
  sockaddr_in source;
  socklen_t length = sizeof source;
  const ssize_t n =
      recvfrom(fd_, incoming_.data(), incoming_.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&source), &length);
  if (n < 0) {
    if (errno != EAGAIN) check("recvfrom", n);
    return std::nullopt;
  }
  if (static_cast<std::size_t>(n) != incoming_.size()) fail("a datagram of the wrong size");
  std::uint64_t word;
  std::memcpy(&word, incoming_.data(), sizeof word);
  return word;
}

std::uint64_t DatagramLink::receive() {
  for (;;)
    if (const auto word = try_receive()) return *word;
}

void DatagramLink::join(const sockaddr_in& group) {
  group_ = open_socket();
  set(group_, SOL_SOCKET, SO_REUSEADDR, 1);
  check("bind", bind(group_, reinterpret_cast<const sockaddr*>(&group), sizeof group));
  const ip_mreqn request{group.sin_addr, own_.sin_addr, 0};
  set(group_, IPPROTO_IP, IP_ADD_MEMBERSHIP, request);
}

void DatagramLink::leave_group() {
  close(group_);
}

}  // namespace bench
