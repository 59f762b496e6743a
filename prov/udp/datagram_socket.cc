// SPDX-License-Identifier: BSD-2-Clause
// Reading datagrams; see datagram_socket.h.
#include "udp/datagram_socket.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>

#include "udp/limits.h"
#include "udp/receiver.h"
#include "udp/socket.h"

#ifndef UDP_GRO
#define UDP_GRO 104  // Linux 5.0
#endif

namespace weft::udp {
namespace {

// The arguments of recvmmsg.
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

// The size of the datagrams that the kernel has coalesced, or 0.
std::size_t segment_size(msghdr& header) noexcept {
  for (cmsghdr* message = CMSG_FIRSTHDR(&header); message != nullptr; message = CMSG_NXTHDR(&header, message)) {
    if (message->cmsg_level != IPPROTO_UDP || message->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(message), sizeof size);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  return 0;
}

// Batches start after kStartBatches reads that each found a datagram, and end after kEndBatches batches of one.
constexpr std::size_t kStartBatches = 4;
constexpr std::size_t kEndBatches = 64;

// Errors about an earlier datagram; the socket stays usable. Reading an error clears it.
bool is_about_earlier(int result) noexcept {
  return result == -ECONNREFUSED || result == -EHOSTUNREACH || result == -ENETUNREACH || result == -EMSGSIZE ||
         result == -EPROTO;
}

}  // namespace

DatagramSocket::~DatagramSocket() {
  if (fd >= 0) receiver_.engine().remove(*this);
}

Status DatagramSocket::open(UniqueFd socket, bool coalesces) {
  if (Status status = receiver_.engine().add(*this, socket.get()); !status.ok()) return status;
  socket_ = std::move(socket);
  coalesces_ = coalesces;
  return Status();
}

bool DatagramSocket::read() noexcept {
  if (receiver_.queue.empty()) return false;  // posting a receive makes the socket ready again
  return batches_ ? read_batch(receiver_.queue.read_limit(kReceiveBatch)) : read_one();
}

bool DatagramSocket::on_error(int error) noexcept {
  if (error == -EAGAIN) [[likely]]
    return readable = false;
  if (is_about_earlier(error)) return true;
  readable = false;
  return false;
}

// Reads directly into the posted receive, except from a group, whose datagrams may have to be dropped.
bool DatagramSocket::read_one() noexcept {
  messages::DatagramQueue& receives = receiver_.queue;
  const iovec* const place = is_group_ ? nullptr : receives.lone_buffer();
  std::byte* const bytes = place != nullptr ? nullptr : receiver_.engine().receive_slots();
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
      receiver_.received_in_place(static_cast<std::size_t>(len), *source);
    else
      accept(bytes, static_cast<std::size_t>(len), 0, *source);
  }
  if (++in_a_row_ == kStartBatches) start_batches();
  return readable = true;
}

void DatagramSocket::start_batches() noexcept {
  batches_ = true;
  in_a_row_ = 0;
  window_ = kStartBatches;
  if (coalesces_) net::set_option(fd, IPPROTO_UDP, UDP_GRO, 1);  // fails on old kernels, which do not coalesce
}

// The kernel reports the segment size only while UDP_GRO is on, so a datagram that arrived before it was turned off may
// have been coalesced unseen.
void DatagramSocket::end_batches() noexcept {
  in_a_row_ = 0;
  if (coalesces_) {
    net::set_option(fd, IPPROTO_UDP, UDP_GRO, 0);
    if (!net::is_silent(fd)) return start_batches();
  }
  batches_ = false;
}

bool DatagramSocket::read_batch(std::size_t most) noexcept {
  const std::size_t count = std::min(window_, most);
  Slots slots;
  std::byte* const bytes = receiver_.engine().receive_slots();
  for (std::size_t i = 0; i != count; ++i) slots.prepare(i, bytes);
  const int result = net::receive_many(fd, slots.headers, static_cast<unsigned>(count));
  if (result < 0) {
    window_ = 1;
    const bool more = on_error(result);
    if (!more && in_a_row_ >= kEndBatches) end_batches();
    return more;
  }
  const auto got = static_cast<std::size_t>(result);
  bool coalesced = false;
  for (std::size_t i = 0; i != got; ++i) {
    msghdr& header = slots.headers[i].msg_hdr;
    const auto source = Address::from(&slots.names[i], header.msg_namelen);
    if (!source) continue;
    coalesced |= accept(bytes + i * kReceiveSlot, slots.headers[i].msg_len, segment_size(header), *source);
  }
  in_a_row_ = coalesced || got > 1 ? 0 : in_a_row_ + 1;
  // Coalesced datagrams are a batch already: reading more at once would only store them for later receives.
  window_ = coalesced ? 1 : std::min(got == count ? got * 2 : got, kReceiveBatch);
  readable = got == count;
  return readable;
}

// Delivers one datagram, or several of `segment` bytes each (the last may be shorter): then true.
bool DatagramSocket::accept(std::byte* bytes, std::size_t len, std::size_t segment, const Address& source) noexcept {
  if (is_group_ && receiver_.is_own(source)) return false;
  const fi_addr_t name = receiver_.name_of(source);
  if (segment == 0 || len <= segment) {
    receiver_.received({bytes, len}, source, name, is_group_, this);
    return false;
  }
  for (std::size_t at = 0; at < len; at += segment)
    receiver_.received({bytes + at, std::min(segment, len - at)}, source, name, is_group_, this);
  return true;
}

}  // namespace weft::udp
