// SPDX-License-Identifier: BSD-2-Clause
// Packets in buffers of our own; see packets.h.
#include "rxm/messages/packets.h"

#include <cstring>

namespace weft::rxm {

Packet* Packets::make(Channel& channel) noexcept {
  Buffer* buffer = services_.buffers_of(channel).take();
  if (buffer == nullptr) return nullptr;
  Packet* packet = make(channel, *buffer);
  if (packet == nullptr) Buffers::give_back(*buffer);
  return packet;
}

Packet* Packets::make(Channel& channel, Buffer& buffer) noexcept {
  Packet* packet = packets_.take();
  if (packet == nullptr) return nullptr;
  packet->channel = &channel;
  packet->buffer = &buffer;
  return packet;
}

ssize_t Packets::send(Packet& packet) noexcept {
  return packet.channel->credits.may_send() ? send_now(packet) : -FI_EAGAIN;
}

inline ssize_t Packets::send_now(Packet& packet) noexcept {
  Channel& channel = *packet.channel;
  const iovec iov{packet.buffer->bytes, packet.len};
  void* desc = packet.buffer->desc;
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, &packet.space, 0};
  const ssize_t result = fi_sendmsg(channel.ep, &message, packet.lower_flags | FI_COMPLETION);
  if (result != 0) return result;
  ++channel.works.sends;
  --channel.credits.left;
  return 0;
}

// A packet of the peer, and our response, may come before the event that the connection is open.
void Packets::post(Packet& packet) noexcept {
  Channel& channel = *packet.channel;
  const bool may_send = channel.state == Channel::State::kOpen && channel.packets.empty();
  const ssize_t result = may_send ? send(packet) : -FI_EAGAIN;
  if (result == 0) return;
  if (result != -FI_EAGAIN) return release(packet);  // the connection has failed
  channel.packets.push_back(packet);
  ++channel.packet_count;
  if (channel.state == Channel::State::kOpen) services_.retry_packets_later(channel);
}

void Packets::post_control(Channel& channel, PacketType type, std::uint64_t message) noexcept {
  if (channel.state == Channel::State::kClosed) return;
  const PacketHeader header = Packets::header(channel, type, message);
  if (channel.state == Channel::State::kOpen && channel.packets.empty() && sizeof header <= channel.side->inject &&
      channel.credits.may_send() && fi_inject(channel.ep, &header, sizeof header, FI_ADDR_UNSPEC) == 0) {
    --channel.credits.left;
    return;
  }
  Packet* packet = make(channel);
  if (packet == nullptr) return services_.links->protocol_error(channel, "no memory for a response");
  std::memcpy(packet->buffer->bytes, &header, sizeof header);
  packet->len = sizeof header;
  post(*packet);
}

// If the peer has no receive left, its own report arrives here first: the two ends never lack receives at the same
// time.
void Packets::report_receives(Channel& channel) noexcept {
  Credits& credits = channel.credits;
  if (!credits.are_due() || credits.left == 0 || channel.state != Channel::State::kOpen) return;
  Packet* packet = make(channel);
  if (packet == nullptr) return services_.retry_later(channel);
  PacketHeader header = Packets::header(channel, PacketType::kCredit, 0);
  header.control.data = credits.unreported;
  std::memcpy(packet->buffer->bytes, &header, sizeof header);
  packet->len = sizeof header;
  if (send_now(*packet) == 0) {
    credits.unreported = 0;
    return;
  }
  release(*packet);
  services_.retry_later(channel);
}

void Packets::release(Packet& packet) noexcept {
  List<Packet>::unlink(packet);
  Buffers::give_back(*packet.buffer);
  drop(packet);
}

void Packets::retry(Channel& channel) noexcept {
  while (!channel.packets.empty()) {
    Packet& packet = channel.packets.front();
    const ssize_t result = send(packet);
    if (result == -FI_EAGAIN) return;
    --channel.packet_count;
    if (result != 0)
      release(packet);
    else
      List<Packet>::unlink(packet);
  }
}

void Packets::on_closed(Channel& channel) noexcept {
  while (!channel.packets.empty()) release(channel.packets.pop_front());
  channel.packet_count = 0;
}

}  // namespace weft::rxm
