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

// So many datagrams that wait when the socket is read are a burst; after so many batches of one it is over.
constexpr std::size_t kManyInARow = 4;
constexpr std::size_t kFewInARow = 64;

// Errors that say something about an earlier datagram; the socket goes on. Reading one takes it away.
bool is_about_another(int result) noexcept {
  return result == -ECONNREFUSED || result == -EHOSTUNREACH || result == -ENETUNREACH || result == -EMSGSIZE ||
         result == -EPROTO;
}

}  // namespace

DatagramSocket::~DatagramSocket() {
  if (fd >= 0) endpoint_.engine().remove(*this);
}

Status DatagramSocket::open(UniqueFd socket, bool joins) {
  if (Status status = endpoint_.engine().add(*this, socket.get()); !status.ok()) return status;
  socket_ = std::move(socket);
  joins_ = joins;
  return Status();
}

bool DatagramSocket::read() noexcept {
  if (endpoint_.receives().empty()) return false;  // posting a receive makes us ready again
  return batches_ ? read_batch(endpoint_.receives().appetite(kReceiveBatch)) : read_one();
}

bool DatagramSocket::on_error(int error) noexcept {
  if (error == -EAGAIN) [[likely]]
    return readable = false;
  if (is_about_another(error)) return true;
  readable = false;
  return false;
}

// Straight to its receive, unless there may be a reason not to want the datagram.
bool DatagramSocket::read_one() noexcept {
  ReceiveQueue& receives = endpoint_.receives();
  const iovec* const place = of_group_ ? nullptr : receives.lone_buffer();
  std::byte* const bytes = place != nullptr ? nullptr : endpoint_.engine().receive_slots();
  sockaddr_in6 name;
  socklen_t name_len = 0;
  const ssize_t len = place != nullptr ? net::receive(fd, place->iov_base, place->iov_len, name, name_len)
                                       : net::receive(fd, bytes, kReceiveSlot, name, name_len);
  if (len < 0) {
    in_a_row_ = 0;
    return on_error(static_cast<int>(len));
  }
  if (const auto source = Address::from(&name, name_len)) {
    if (place != nullptr)
      endpoint_.received_in_place(static_cast<std::size_t>(len), *source);
    else
      accept(bytes, static_cast<std::size_t>(len), 0, *source);
  }
  if (++in_a_row_ == kManyInARow) start_batches();
  return readable = true;
}

void DatagramSocket::start_batches() noexcept {
  batches_ = true;
  in_a_row_ = 0;
  window_ = kManyInARow;
  if (joins_) net::set_option(fd, IPPROTO_UDP, UDP_GRO, 1);  // an old kernel may not know it
}

// What the kernel has joined tells so only while it may join. If something came in between, it may be joined.
void DatagramSocket::end_batches() noexcept {
  in_a_row_ = 0;
  if (joins_) {
    net::set_option(fd, IPPROTO_UDP, UDP_GRO, 0);
    if (!net::is_silent(fd)) return start_batches();
  }
  batches_ = false;
}

bool DatagramSocket::read_batch(std::size_t most) noexcept {
  const std::size_t count = std::min(window_, most);
  Slots slots;
  std::byte* const bytes = endpoint_.engine().receive_slots();
  for (std::size_t i = 0; i != count; ++i) slots.prepare(i, bytes);
  const int result = net::receive_many(fd, slots.headers, static_cast<unsigned>(count));
  if (result < 0) {
    window_ = 1;
    const bool more = on_error(result);
    if (!more && in_a_row_ >= kFewInARow) end_batches();
    return more;
  }
  const auto got = static_cast<std::size_t>(result);
  bool joined = false;
  for (std::size_t i = 0; i != got; ++i) {
    msghdr& header = slots.headers[i].msg_hdr;
    const auto source = Address::from(&slots.names[i], header.msg_namelen);
    if (!source) continue;
    joined |= accept(bytes + i * kReceiveSlot, slots.headers[i].msg_len, segment_size(header), *source);
  }
  in_a_row_ = joined || got > 1 ? 0 : in_a_row_ + 1;
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
