// SPDX-License-Identifier: BSD-2-Clause
// Reading datagrams; see datagram_socket.h.
#include "udp/datagram_socket.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>

#include "udp/endpoint.h"
#include "udp/limits.h"
#include "udp/socket.h"

#ifndef UDP_GRO
#define UDP_GRO 104  // Linux 5.0
#endif

namespace weft::udp {
namespace {

// What recvmmsg is given.
struct Slots {
  mmsghdr headers[kReceiveBatch];
  iovec iov[kReceiveBatch];
  sockaddr_in6 names[kReceiveBatch];
  alignas(cmsghdr) std::byte control[kReceiveBatch][CMSG_SPACE(sizeof(int))];

  void prepare(std::size_t i, std::byte* bytes) noexcept {
    iov[i] = {bytes + i * kReceiveSlot, kReceiveSlot};
    headers[i].msg_hdr = {.msg_name = &names[i],
                          .msg_namelen = sizeof names[i],
                          .msg_iov = &iov[i],
                          .msg_iovlen = 1,
                          .msg_control = control[i],
                          .msg_controllen = sizeof control[i],
                          .msg_flags = 0};
  }
};

// The size of the datagrams that the kernel has joined, or 0.
std::size_t segment_size(msghdr& header) noexcept {
  for (cmsghdr* message = CMSG_FIRSTHDR(&header); message != nullptr; message = CMSG_NXTHDR(&header, message)) {
    if (message->cmsg_level != IPPROTO_UDP || message->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(message), sizeof size);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  return 0;
}

// Errors that say something about an earlier datagram; the socket goes on. Reading one takes it away.
bool is_about_another(int result) noexcept {
  return result == -ECONNREFUSED || result == -EHOSTUNREACH || result == -ENETUNREACH || result == -EMSGSIZE ||
         result == -EPROTO;
}

}  // namespace

DatagramSocket::~DatagramSocket() {
  if (fd >= 0) endpoint_.engine().remove(*this);
}

Status DatagramSocket::open(UniqueFd socket) {
  if (Status status = endpoint_.engine().add(*this, socket.get()); !status.ok()) return status;
  socket_ = std::move(socket);
  return Status();
}

bool DatagramSocket::read() noexcept {
  const std::size_t count = std::min(window_, endpoint_.receives().appetite(kReceiveBatch));
  if (count == 0) return false;  // posting a receive makes us ready again
  Slots slots;
  std::byte* const bytes = endpoint_.engine().receive_slots();
  for (std::size_t i = 0; i != count; ++i) slots.prepare(i, bytes);
  const int result = net::receive_many(fd, slots.headers, static_cast<unsigned>(count));
  if (result < 0) {
    if (is_about_another(result)) return true;
    readable = false;
    return false;
  }
  const auto got = static_cast<std::size_t>(result);
  bool joined = false;
  for (std::size_t i = 0; i != got; ++i) {
    msghdr& header = slots.headers[i].msg_hdr;
    const auto source = Address::from(&slots.names[i], header.msg_namelen);
    if (!source) continue;
    joined |= accept(bytes + i * kReceiveSlot, slots.headers[i].msg_len, segment_size(header), *source);
  }
  // Joined datagrams are a batch already: more of them at once would only have to be kept.
  window_ = joined ? 1 : std::min(got == count ? got * 2 : got, kReceiveBatch);
  readable = got == count;
  return readable;
}

// One datagram, or several of `segment` bytes behind each other (the last may be shorter): true.
bool DatagramSocket::accept(std::byte* bytes, std::size_t len, std::size_t segment, const Address& source) noexcept {
  if (of_group_ && endpoint_.is_own(source)) return false;
  const fi_addr_t name = endpoint_.source_name(source);
  if (segment == 0 || len <= segment) {
    endpoint_.received({bytes, len}, source, name, this);
    return false;
  }
  for (std::size_t at = 0; at < len; at += segment)
    endpoint_.received({bytes + at, std::min(segment, len - at)}, source, name, this);
  return true;
}

}  // namespace weft::udp
