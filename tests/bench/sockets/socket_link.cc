// SPDX-License-Identifier: BSD-2-Clause
// Messages over one plain connection; see socket_link.h.
#include "sockets/socket_link.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "process/process_pair.h"

namespace bench {
namespace {

constexpr std::size_t kBurst = 64 * 1024;  // frames are gathered up to this many bytes, both ways

}  // namespace

SocketLink::SocketLink(const SocketNode& node, std::size_t size, std::size_t depth)
    : fd_(node.socket(0)),
      flags_(node.flags() | MSG_NOSIGNAL),
      readiness_(node.readiness()),
      frame_(sizeof(FrameHeader) + size),
      outgoing_(frame_ * depth),
      incoming_(frame_ * depth) {}

void SocketLink::send(std::uint64_t word) {
  const FrameHeader header{frame_, 0};
  std::memcpy(outgoing_.data() + written_, &header, sizeof header);
  std::memcpy(outgoing_.data() + written_ + sizeof header, &word, sizeof word);
  written_ += frame_;
  if (written_ == outgoing_.size() || written_ - unsent_ >= kBurst) drain();
}

void SocketLink::drain() {
  while (unsent_ < written_) {
    const ssize_t n = ::send(fd_, outgoing_.data() + unsent_, written_ - unsent_, flags_);
    if (n > 0) unsent_ += static_cast<std::size_t>(n);
    if (n < 0 && errno != EAGAIN) check("send", n);
  }
  if (written_ == outgoing_.size()) unsent_ = written_ = 0;
}

std::uint64_t SocketLink::receive() {
  while (filled_ - read_ < frame_) fill();
  FrameHeader header;
  std::memcpy(&header, incoming_.data() + read_, sizeof header);
  if (header.size != frame_) fail("a frame of the wrong size");
  std::uint64_t word;
  std::memcpy(&word, incoming_.data() + read_ + sizeof header, sizeof word);
  read_ += frame_;
  return word;
}

void SocketLink::fill() {
  if (read_ == incoming_.size()) read_ = filled_ = 0;  // frames end where the row ends
  if (readiness_ >= 0) {
    epoll_event ready;
    if (check("epoll_wait", epoll_wait(readiness_, &ready, 1, 0)) == 0) return;
  }
  const std::size_t frame_left = frame_ - filled_ % frame_;
  const std::size_t want = std::min(std::max(frame_left, kBurst), incoming_.size() - filled_);
  const ssize_t n = recv(fd_, incoming_.data() + filled_, want, flags_);
  if (n > 0) filled_ += static_cast<std::size_t>(n);
  if (n == 0) fail("the peer left");
  if (n < 0 && errno != EAGAIN) check("recv", n);
}

}  // namespace bench
