// SPDX-License-Identifier: BSD-2-Clause
// Buffers posted for packets: some for each connection, or some for all connections in a shared receive context of the
// lower provider, so that an idle peer costs none; fi_endpoint(3), fi_srx_context.
//
// A shared buffer does not identify the sender of its packet. The packet contains the number that its sender received
// when it connected. Numbers are random, so that no peer can state the number of another. A packet with an unknown
// number is dropped.
#pragma once

#include <unordered_map>

#include "base/pool.h"
#include "rxm/endpoint_services.h"

namespace weft::rxm {

// Owner: the endpoint. The engine's mutex guards it. As a base: the memory for unexpected messages of all peers, if
// they share buffers, because then one peer alone cannot be made to wait.
class PostedBuffers : private messages::PeerMemory {
 public:
  explicit PostedBuffers(EndpointServices& services) noexcept;

  // Shared receives, if the lower provider supports them; otherwise every connection posts receives of its own.
  void open_shared(const fi_info& lower) noexcept;
  fid_ep* shared() const noexcept { return shared_.get(); }
  // Whether the connection's packets come in shared buffers.
  static bool shares(const Channel& channel) noexcept { return channel.number != 0; }
  // The number for packets of the connection. False when the system has no random bytes, or memory runs out.
  bool assign_number(Channel& channel) noexcept;
  // False when memory runs out.
  bool post_for(Channel& channel) noexcept;
  // Posts the buffer for the next packet, as soon as the lower provider and back-pressure permit.
  void post(PostedBuffer& posted) noexcept;
  void release(PostedBuffer& posted) noexcept;

  messages::PeerMemory& memory_of(Channel& channel) noexcept {
    return shares(channel) ? static_cast<messages::PeerMemory&>(*this) : *channel.peer;
  }
  // The peer supports PacketType::kScarce.
  void on_follower(Channel& channel) noexcept {
    channel.scarcity.supported = true;
    memory_of(channel).follows();
  }
  // Whether the limit of the peer's unexpected messages is reached, so that the peer must wait.
  bool pushes_back(Channel& channel) noexcept { return !memory_of(channel).has_room(0); }
  // There is room again for messages of a peer that waited.
  void end_back_pressure() noexcept;
  // Posts again after lack of memory or back-pressure.
  void retry() noexcept;
  void retry(Channel& channel) noexcept;
  bool has_left_over() noexcept { return !unposted_shared_.empty(); }
  bool may_post_left_over() noexcept { return has_left_over() && has_room(0); }

  // The lower provider has returned the operation.
  void returned(const Work& work) noexcept {
    if (work.channel == nullptr)
      --shared_posted_;
    else if (work.kind == Work::Kind::kReceive)
      --work.channel->works.receives;
    else
      --work.channel->works.sends;
  }
  std::size_t shared_posted() const noexcept { return shared_posted_; }
  // The connection that a packet in a shared buffer belongs to; nullptr: unknown.
  Channel* sender_of(const PostedBuffer& posted, std::size_t len) noexcept {
    if (len < sizeof(ControlHeader)) return nullptr;
    const auto number = static_cast<std::uint32_t>(posted.buffer->header().control.connection);
    return last_sender_ != nullptr && last_sender_->number == number ? last_sender_ : look_up(number);
  }

  void on_closed(Channel& channel) noexcept;
  void close() noexcept;

 private:
  void post_shared(PostedBuffer& posted) noexcept;
  void keep_left_over(PostedBuffer& posted) noexcept;
  void post_own(PostedBuffer& posted) noexcept;
  // Where both ends count receives, a new connection has one in any case, for the peer's first report: an end that
  // states none does not seem to count, and its peer does not report.
  static bool needs_first(const Channel& channel) noexcept {
    return channel.side->counts_receives && channel.state == Channel::State::kConnecting && channel.works.receives == 0;
  }
  Channel* look_up(std::uint32_t number) noexcept {
    const auto found = channels_by_number_.find(number);
    return found == channels_by_number_.end() ? nullptr : last_sender_ = found->second;
  }

  EndpointServices& services_;
  const std::size_t packet_size_;
  Lower<fid_ep> shared_;                // null: each connection has its own receives
  std::size_t shared_count_ = 0;        // all of the shared receives
  std::size_t shared_posted_ = 0;       // shared receives that the lower provider has
  List<PostedBuffer> unposted_shared_;  // shared receives that the lower provider does not have
  std::unordered_map<std::uint32_t, Channel*> channels_by_number_;
  Channel* last_sender_ = nullptr;
  Pool<PostedBuffer> pool_;
};

}  // namespace weft::rxm
