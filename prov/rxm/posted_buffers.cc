// SPDX-License-Identifier: BSD-2-Clause
// Buffers that lie in wait for packets: some for each connection, or some for all of them together in a shared receive
// context of the lower provider, so that an idle peer costs none; fi_endpoint(3), fi_srx_context.
//
// A shared buffer does not tell whose packet it holds; the packet does, by the number that its sender was given when it
// connected. Numbers are random, so that no peer knows another one's. A packet with none of them is dropped.
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "rxm/domain.h"
#include "rxm/endpoint.h"
#include "rxm/provider.h"

namespace weft::rxm {

bool Endpoint::pushes_back() noexcept {
  if (receives_.kept_bytes() <= unexpected_limit_) return false;
  held_ = true;
  return true;
}

bool Endpoint::post_buffers(Channel& channel) noexcept {
  std::size_t count = kReceivesPerChannel;
  if (shared_receives_ != nullptr) {
    count = std::max(count, kFewestSharedReceives - std::min(shared_buffers_, kFewestSharedReceives));
    count = std::min(count, kSharedReceives - shared_buffers_);
  }
  for (std::size_t i = 0; i < count; ++i) {
    PostedBuffer* posted = posted_pool_.take();
    if (posted == nullptr) return false;
    if (shared_receives_ != nullptr) ++shared_buffers_;
    posted->channel = &channel;
    post_buffer(*posted);
  }
  return true;
}

// Lets the lower provider have the buffer for the next packet, as soon as it and the limit on messages allow.
void Endpoint::post_buffer(PostedBuffer& posted) noexcept {
  if (posted.buffer == nullptr) posted.buffer = buffers_.take();
  if (shared_receives_ != nullptr) return post_shared(posted);
  Channel& channel = *posted.channel;
  ssize_t result = -FI_EAGAIN;
  if (channel.state == Channel::State::kClosed) {
    result = -FI_ENOTCONN;
  } else if (posted.buffer != nullptr && !pushes_back() && !channel.holds_back()) {
    result =
        fi_recv(channel.ep, posted.buffer->bytes, buffers_.size(), posted.buffer->desc, FI_ADDR_UNSPEC, &posted.space);
  }
  if (result == 0) {
    ++channel.works;
  } else if (result == -FI_EAGAIN) {
    channel.unposted.push_back(posted);
    if (!pushes_back()) stall(channel);
  } else {
    if (posted.buffer != nullptr) buffers_.give_back(*posted.buffer);
    posted_pool_.give_back(&posted);
  }
}

// ---- Shared by all connections ----

// Without one every connection has its own.
void Endpoint::open_shared_receives() noexcept {
  if (!shares_receives_) return;
  fi_rx_attr attr = *lower_info_->rx_attr;
  attr.size = kSharedReceives;
  attr.iov_limit = 1;
  attr.op_flags = 0;
  fid_ep* context = nullptr;
  if (const int error = fi_srx_context(domain_.lower(), &attr, &context, nullptr); error != 0) {
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "each peer gets receive buffers of its own: %s\n", fi_strerror(-error));
    return;
  }
  shared_receives_.reset(context);
}

void Endpoint::post_shared(PostedBuffer& posted) noexcept {
  posted.channel = nullptr;
  ssize_t result = -FI_EAGAIN;
  if (posted.buffer != nullptr && !pushes_back())
    result = fi_recv(shared_receives_.get(), posted.buffer->bytes, buffers_.size(), posted.buffer->desc, FI_ADDR_UNSPEC,
                     &posted.space);
  if (result == 0)
    ++shared_posted_;
  else
    left_over_.push_back(posted);
}

// What there was no memory for, or no wish.
void Endpoint::post_left_over() noexcept {
  for (std::size_t tries = kSharedReceives; tries != 0 && !left_over_.empty() && !pushes_back(); --tries)
    post_buffer(left_over_.pop_front());
}

// False when the system has no random bytes, or memory runs out.
bool Endpoint::give_number(Channel& channel) noexcept {
  std::uint32_t number = 0;
  while (number == 0 || channels_by_number_.contains(number))
    if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) return false;
  try {
    channels_by_number_[number] = &channel;
  } catch (const std::bad_alloc&) {
    return false;
  }
  channel.number = number;
  return true;
}

Channel* Endpoint::look_up_sender(std::uint32_t number) noexcept {
  const auto found = channels_by_number_.find(number);
  if (found == channels_by_number_.end()) return nullptr;
  last_sender_ = found->second;
  if (!last_sender_->holds_back()) return last_sender_;
  protocol_error(*last_sender_, "it does not read our answers");
  return nullptr;
}

}  // namespace weft::rxm
