// SPDX-License-Identifier: BSD-2-Clause
// Bursts of messages; see transmit_batch.h.
#include "udp/transmit_batch.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "udp/socket.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103  // Linux 4.18
#endif

namespace weft::udp {
namespace {

// The arguments of sendmmsg for a whole batch.
struct Packets {
  mmsghdr headers[kSendBatch];
  std::uint8_t runs[kSendBatch];  // messages in each
  iovec iov[kSendBatch * kIovLimit];
  alignas(cmsghdr) std::byte control[kSendBatch][CMSG_SPACE(sizeof(std::uint16_t))];
};
static_assert(kSendBatch * kIovLimit <= 1024, "UIO_MAXIOV");

void set_segment_size(msghdr& header, std::byte* control, std::uint16_t size) noexcept {
  header.msg_control = control;
  header.msg_controllen = CMSG_SPACE(sizeof size);
  cmsghdr* message = CMSG_FIRSTHDR(&header);
  message->cmsg_level = IPPROTO_UDP;
  message->cmsg_type = UDP_SEGMENT;
  message->cmsg_len = CMSG_LEN(sizeof size);
  std::memcpy(CMSG_DATA(message), &size, sizeof size);
}

// The device or the path does not support segmentation, or not of this size.
bool refuses_segments(ssize_t result) noexcept {
  return result == -EIO || result == -EINVAL || result == -EMSGSIZE || result == -EOPNOTSUPP;
}

}  // namespace

Status TransmitBatch::allocate(std::size_t segment_limit) noexcept {
  slots_.reset(new (std::nothrow) Outgoing[kSendBatch]);
  segment_limit_ = segment_limit;
  return slots_ != nullptr ? Status() : Status(-FI_ENOMEM);
}

std::size_t TransmitBatch::run_at(std::size_t position) const noexcept {
  const Outgoing& first = slot(head_ + position);
  if (first.len == 0 || first.len > segment_limit_) return 1;
  const std::size_t most = std::min({size() - position, kMaxSegments, kMaxSegmentedBytes / first.len});
  std::size_t run = 1;
  while (run < most) {
    const Outgoing& next = slot(head_ + position + run);
    if (next.len == 0 || next.len > first.len || !(next.destination == first.destination)) break;
    ++run;
    if (next.len < first.len) break;  // only the last one may be shorter
  }
  return run;
}

void TransmitBatch::finish(std::size_t count, int error, CompletionRoutes& routes) noexcept {
  for (; count != 0; --count) {
    const Outgoing& message = slot(head_++);
    if (error == 0)
      routes.transmitted(message.flags, message.context, message.report);
    else
      routes.transmit_failed(message.flags, message.context, error, error);
  }
}

// Makes one system call, reports the messages that it sent or refused, and returns its result.
ssize_t TransmitBatch::send_some(int fd, CompletionRoutes& routes) noexcept {
  Packets packets;
  unsigned count = 0;
  iovec* iov = packets.iov;
  for (std::size_t at = 0; at != size(); ++count) {
    const std::size_t run = run_at(at);
    Outgoing& first = slot(head_ + at);
    msghdr& header = packets.headers[count].msg_hdr;
    header = {};
    header.msg_name = const_cast<sockaddr*>(first.destination.data());
    header.msg_namelen = first.destination.size();
    header.msg_iov = iov;
    for (std::size_t i = 0; i != run; ++i, ++at) {
      const Outgoing& message = slot(head_ + at);
      iov = std::copy_n(message.iov, message.iov_count, iov);
    }
    header.msg_iovlen = static_cast<std::size_t>(iov - header.msg_iov);
    packets.runs[count] = static_cast<std::uint8_t>(run);
    if (run > 1) set_segment_size(header, packets.control[count], static_cast<std::uint16_t>(first.len));
  }
  const int sent = net::send_many(fd, packets.headers, count);
  if (sent >= 0) {
    for (int i = 0; i < sent; ++i) finish(packets.runs[i], 0, routes);
  } else if (!is_back_pressure(sent)) {
    if (packets.runs[0] > 1 && refuses_segments(sent))
      segment_limit_ = 0;  // from now on one by one
    else
      finish(packets.runs[0], -sent, routes);
  }
  return sent;
}

}  // namespace weft::udp
