// SPDX-License-Identifier: BSD-2-Clause
// Buffers posted for packets; see posted_buffers.h.
#include "rxm/messages/posted_buffers.h"

#include <rdma/fi_errno.h>
#include <sys/random.h>

#include <algorithm>
#include <new>

#include "rxm/logging.h"

namespace weft::rxm {

void Peer::on_room(PeerMemory& memory) noexcept {
  static_cast<Peer&>(memory).posted->end_back_pressure();
}

PostedBuffers::PostedBuffers(EndpointServices& services) noexcept
    : PeerMemory([](PeerMemory& memory) noexcept { static_cast<PostedBuffers&>(memory).end_back_pressure(); }),
      services_(services),
      packet_size_(services.buffers.size()) {
  enter(services.domain.parts().unexpected);
}

// Not over a byte stream: messages without a header may arrive there, and an idle buffer costs no memory.
void PostedBuffers::open_shared(const fi_info& lower) noexcept {
  if (!services_.domain.fabric().parameters.shared_receives || is_stream(lower) ||
      lower.domain_attr->max_ep_srx_ctx == 0 || needs_credits(lower))
    return;
  fi_rx_attr attr = *lower.rx_attr;
  attr.size = kSharedReceives;
  attr.iov_limit = 1;
  attr.op_flags = 0;
  fid_ep* context = nullptr;
  if (const int error = fi_srx_context(services_.domain.lower().domain.get(), &attr, &context, nullptr); error != 0) {
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "no shared receives, each peer has its own: %s\n", fi_strerror(-error));
    return;
  }
  shared_.reset(context);
}

bool PostedBuffers::assign_number(Channel& channel) noexcept {
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

bool PostedBuffers::post_for(Channel& channel) noexcept {
  channel.peer->posted = this;
  channel.peer->enter(services_.domain.parts().unexpected);
  channel.peer->copies.enter(services_.domain.parts().copies);
  std::size_t count = channel.side->counts_receives ? kCountedReceives : kReceivesPerChannel;
  const bool shared = shares(channel);
  if (shared) {
    count = std::max(count, kFewestSharedReceives - std::min(shared_count_, kFewestSharedReceives));
    count = std::min(count, kSharedReceives - shared_count_);
  }
  for (std::size_t i = 0; i < count; ++i) {
    PostedBuffer* posted = pool_.take();
    if (posted == nullptr) return false;
    if (posted->shared = shared; shared) ++shared_count_;
    posted->channel = &channel;
    post(*posted);
  }
  return !needs_first(channel);
}

inline void PostedBuffers::post_shared(PostedBuffer& posted) noexcept {
  posted.channel = nullptr;
  ssize_t result = -FI_EAGAIN;
  if (posted.buffer != nullptr && has_room(0))
    result =
        fi_recv(shared_.get(), posted.buffer->bytes, packet_size_, posted.buffer->desc, FI_ADDR_UNSPEC, &posted.space);
  if (result == 0)
    ++shared_posted_;
  else
    keep_left_over(posted);
}

[[gnu::noinline]] void PostedBuffers::keep_left_over(PostedBuffer& posted) noexcept {
  unposted_shared_.push_back(posted);
  services_.note_work();
}

void PostedBuffers::post(PostedBuffer& posted) noexcept {
  if (posted.buffer == nullptr) [[unlikely]]
    posted.buffer = (posted.shared ? services_.buffers : services_.buffers_of(*posted.channel)).take();
  posted.shared ? post_shared(posted) : post_own(posted);
}

void PostedBuffers::post_own(PostedBuffer& posted) noexcept {
  Channel& channel = *posted.channel;
  ssize_t result = -FI_EAGAIN;
  if (channel.state == Channel::State::kClosed)
    result = -FI_ENOTCONN;
  else if (posted.buffer != nullptr && (needs_first(channel) || !pushes_back(channel)) && !channel.is_throttled())
    result =
        fi_recv(channel.ep, posted.buffer->bytes, packet_size_, posted.buffer->desc, FI_ADDR_UNSPEC, &posted.space);
  if (result == 0) {
    ++channel.works.receives;
    ++channel.credits.unreported;
    if (channel.credits.are_due()) [[unlikely]]
      services_.retry_later(channel);
  } else if (result == -FI_EAGAIN) {
    channel.unposted.push_back(posted);
    if (!pushes_back(channel)) services_.retry_later(channel);
  } else {
    release(posted);
  }
}

void PostedBuffers::release(PostedBuffer& posted) noexcept {
  if (posted.buffer != nullptr) Buffers::give_back(*posted.buffer);
  pool_.give_back(&posted);
}

void PostedBuffers::retry() noexcept {
  for (std::size_t tries = kSharedReceives; tries != 0 && may_post_left_over(); --tries)
    post(unposted_shared_.pop_front());
}

void PostedBuffers::retry(Channel& channel) noexcept {
  for (std::size_t count = kReceivesPerChannel; count > 0 && !channel.unposted.empty(); --count) {
    if (pushes_back(channel) || channel.is_throttled()) break;
    post(channel.unposted.pop_front());
  }
}

void PostedBuffers::end_back_pressure() noexcept {
  services_.engine.wake_sleepers();
  retry();
  for (Channel& channel : services_.channels)
    if (!channel.unposted.empty() || channel.scarcity.reported) services_.retry_later(channel);
}

void PostedBuffers::on_closed(Channel& channel) noexcept {
  channels_by_number_.erase(channel.number);
  if (last_sender_ == &channel) last_sender_ = nullptr;
  while (!channel.unposted.empty()) release(channel.unposted.pop_front());
  while (!channel.stalled.empty()) post(channel.stalled.pop_front());
}

void PostedBuffers::close() noexcept {
  stop_waiting();
  shared_.reset();
  unposted_shared_.clear();
}

}  // namespace weft::rxm
