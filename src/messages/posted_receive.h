// SPDX-License-Identifier: BSD-2-Clause
// A posted receive and the part of it that one message gets: fi_msg(3), fi_tagged(3), FI_MULTI_RECV.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "objects/transfer_calls.h"

namespace weft::messages {

// The default of FI_OPT_MIN_MULTI_RECV, the least room that an FI_MULTI_RECV buffer keeps; less if no message can be
// that long. Programs rely on it for whole messages.
inline constexpr std::size_t kDefaultMinMultiReceive = 16 * 1024;

// Base of the posted receives of a matcher, which adds its hooks and the part of Wanted that it uses.
struct PostedReceive {
  iovec iov[kIovLimit];
  std::uint16_t iov_count = 0;
  bool tagged = false;
  bool retired = false;        // FI_MULTI_RECV: matches no further message
  std::uint32_t arriving = 0;  // FI_MULTI_RECV: messages that have a part of it and are not complete
  std::size_t len = 0;         // bytes in all of iov
  std::size_t used = 0;        // FI_MULTI_RECV: bytes given to messages so far
  void* context = nullptr;
  std::uint64_t flags = 0;  // FI_COMPLETION, FI_MULTI_RECV

  bool takes_many() const noexcept { return (flags & FI_MULTI_RECV) != 0; }
};

// The destination of one message: a whole receive, or with FI_MULTI_RECV the next part of one.
class Delivery {
 public:
  Delivery() noexcept = default;
  Delivery(PostedReceive& receive, const iovec& part) noexcept : receive_(&receive), part_(part) {}
  explicit Delivery(PostedReceive& receive) noexcept : receive_(&receive), part_{nullptr, receive.len} {}

  PostedReceive& receive() const noexcept { return *receive_; }
  explicit operator bool() const noexcept { return receive_ != nullptr; }
  std::size_t capacity() const noexcept { return part_.iov_len; }
  void* piece() const noexcept { return part_.iov_base; }  // FI_MULTI_RECV only: the start of the part
  std::span<const iovec> iov() const noexcept {
    if (part_.iov_base != nullptr) return {&part_, 1};
    return {receive_->iov, receive_->iov_count};
  }
  // Copies the message there, or as much of it as fits.
  void write(std::span<const std::byte> message) const noexcept {
    scatter(iov(), message.first(std::min(message.size(), capacity())));
  }

 private:
  PostedReceive* receive_ = nullptr;
  iovec part_{};
};

}  // namespace weft::messages
