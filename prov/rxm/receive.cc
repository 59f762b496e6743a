// SPDX-License-Identifier: BSD-2-Clause
// What comes in: packets of peers, and where their messages go. Nothing of what a peer says is believed unchecked.
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "objects/message_buffers.h"
#include "rxm/domain.h"
#include "rxm/endpoint.h"
#include "rxm/provider.h"

namespace weft::rxm {
namespace {

// Messages in pieces are kept whole if nobody waits for them, so there is an end to what one may claim to be.
constexpr std::size_t kMaxAssembled = std::size_t{16} * 1024 * 1024;

}  // namespace

void Endpoint::stall(Channel& channel) noexcept {
  if (!static_cast<ListHook<StalledTag>&>(channel).linked()) stalled_.push_back(channel);
}

// Tries again what the lower provider had no room for.
void Endpoint::resume(Channel& channel) noexcept {
  static_cast<ListHook<StalledTag>&>(channel).unlink();
  const bool open = channel.state == Channel::State::kOpen;
  while (open && !channel.packets.empty()) {
    Packet& packet = channel.packets.front();
    const ssize_t result = send_packet(packet);
    if (result == -FI_EAGAIN) break;
    --channel.packet_count;
    if (result != 0)
      release(packet);
    else
      static_cast<ListHook<Packet>&>(packet).unlink();
  }
  for (std::size_t count = kReceivesPerChannel; count > 0 && !channel.unposted.empty(); --count) {
    if (pushes_back() || channel.holds_back()) break;
    post_buffer(channel.unposted.pop_front());
  }
  if (!open) return;
  if (!channel.packets.empty()) return stall(channel);
  while (!channel.stalled.empty() && !static_cast<ListHook<StalledTag>&>(channel).linked())
    go_on(channel.stalled.pop_front());
  if (channel.peer->channel == &channel) flush(*channel.peer);
}

void Endpoint::protocol_error(Channel& channel, const char* what) noexcept {
  if (channel.state == Channel::State::kClosed) return;
  Peer& peer = *channel.peer;
  FI_WARN(&provider(), FI_LOG_EP_DATA, "%s: %s; the connection ends\n", peer.address.to_string().c_str(), what);
  const bool ours = peer.channel == &channel;
  close_channel(channel, EPROTO);
  if (ours) fail_waiting(peer, EPROTO);
}

// False after a protocol error.
inline bool Endpoint::may_be_message(Channel& channel, const OpHeader& op) noexcept {
  const char* wrong = nullptr;
  if (op.op > PacketOp::kTagged)
    wrong = "a packet for an unknown operation";
  else if (!receives_.takes(op.receive_index))
    wrong = "a message for a receive context that there is not";
  if (wrong == nullptr) [[likely]]
    return true;
  protocol_error(channel, wrong);
  return false;
}

inline rdm::Envelope Endpoint::envelope_of(Peer& peer, const OpHeader& op) noexcept {
  const bool tagged = op.op == PacketOp::kTagged;
  return {.source = peer.id,
          .tag = tagged ? op.tag : 0,
          .data = op.data & data_mask_,
          .len = op.size,
          .name = name_of(peer),
          .tagged = tagged,
          .has_data = (op.flags & FI_REMOTE_CQ_DATA) != 0,
          .context = receives_.has_contexts() ? op.receive_index : std::uint8_t{0}};
}

inline void Endpoint::deliver(PostedBuffer& posted, const rdm::Envelope& envelope, const std::byte* payload) noexcept {
  if (const rdm::Delivery delivery = receives_.match(envelope)) [[likely]] {
    scatter(delivery.iov(), {payload, std::min(envelope.len, delivery.capacity())});
    receives_.complete(delivery, envelope);
  } else {
    keep(posted, envelope, payload);
  }
}

// Most packets are a message and its header: for them the way is straight.
inline void Endpoint::handle_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept {
  Channel& channel = *posted.channel;
  const std::byte* const bytes = posted.buffer->bytes;
  PacketHeader header;
  if ((entry.flags & FI_TAGGED) == 0 && entry.len >= sizeof header) [[likely]] {
    std::memcpy(&header, bytes, sizeof header);
    if (header.control.version == kControlVersion && header.control.type == PacketType::kEager) [[likely]] {
      ++channel.activity;
      if (!may_be_message(channel, header.op)) return;
      if (header.op.size != entry.len - sizeof header)
        return protocol_error(channel, "a message of another length than it says");
      return deliver(posted, envelope_of(*channel.peer, header.op), bytes + sizeof header);
    }
  }
  handle_other_packet(posted, entry);
}

void Endpoint::on_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept {
  if (shared_receives_ != nullptr) posted.channel = sender_of(posted, entry.len);
  // What is closed expects nothing any more.
  if (posted.channel != nullptr && posted.channel->state != Channel::State::kClosed) {
    Channel& channel = *posted.channel;
    if (channel.lane != kNoLane) read_notices(channel);  // they were put up before it was sent
    if (channel.state != Channel::State::kClosed) handle_packet(posted, entry);
    if (channel.lane != kNoLane) board_.tell_received(channel.lane, ++channel.received);
  }
  post_buffer(posted);
}

void Endpoint::handle_other_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept {
  Channel& channel = *posted.channel;
  const std::byte* bytes = posted.buffer->bytes;
  PacketHeader header;
  const std::uint64_t before = channel.activity++;
  if ((entry.flags & FI_TAGGED) != 0) {
    const rdm::Envelope envelope{.source = channel.peer->id,
                                 .tag = entry.tag,
                                 .data = entry.data,
                                 .len = entry.len,
                                 .name = name_of(*channel.peer),
                                 .tagged = true,
                                 .has_data = (entry.flags & FI_REMOTE_CQ_DATA) != 0};
    deliver(posted, envelope, bytes);
  } else if (entry.len < sizeof header.control) {
    protocol_error(channel, "a packet without a header");
  } else {
    std::memcpy(&header, bytes, std::min(entry.len, sizeof header));
    if (header.control.version != kControlVersion)
      protocol_error(channel, "a packet of another version");
    else if (header.control.type == PacketType::kFarewell)
      channel.activity = before, hear_farewell(channel, header.control.message);
    else if (header.control.type == PacketType::kReadDone)
      on_read_done(channel, header.control);
    else if (header.control.type == PacketType::kWriteDone)
      on_write_done(channel, header.control);
    else if (entry.len < sizeof header)
      protocol_error(channel, "a packet whose header is cut");
    else
      on_message_packet(posted, header, entry.len - sizeof header);
  }
}

// Of messages that are more than one packet, and of what is no message. `len` is that of what follows the header.
void Endpoint::on_message_packet(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  switch (header.control.type) {
    case PacketType::kAtomic:
      return on_atomic(posted, header, len);
    case PacketType::kAtomicResponse:
      return on_atomic_response(posted, header, len);
    case PacketType::kWriteTarget:
      return on_write_target(posted, header, len);
    case PacketType::kSegment:
      if (may_be_message(channel, header.op)) on_segment(posted, header, len);
      return;
    case PacketType::kRendezvous:
      if (may_be_message(channel, header.op)) on_rendezvous(channel, header, posted.buffer->bytes + sizeof header, len);
      return;
    default:
      return protocol_error(channel, "a packet of unknown type");
  }
}

// Short messages are copied; a longer one keeps the buffer that it came in.
void Endpoint::keep(PostedBuffer& posted, const rdm::Envelope& envelope, const std::byte* payload) noexcept {
  std::unique_ptr<Unexpected> message(new (std::nothrow) Unexpected);
  if (message == nullptr) return protocol_error(*posted.channel, "no memory for an unexpected message");
  message->envelope = envelope;
  if (envelope.len > kCopiedMessage) {
    message->buffer = posted.buffer;
    message->payload = payload;
    message->kept = sizeof *message + buffers_.size();
  } else {
    message->storage.reset(new (std::nothrow) std::byte[envelope.len]);
    if (message->storage == nullptr) return protocol_error(*posted.channel, "no memory for an unexpected message");
    std::copy_n(payload, envelope.len, message->storage.get());
    message->payload = message->storage.get();
    message->kept = sizeof *message + envelope.len;
  }
  if (!receives_.keep(*message)) return protocol_error(*posted.channel, "no memory for an unexpected message");
  if (message->buffer != nullptr) posted.buffer = nullptr;
  message.release();
}

void Endpoint::on_segment(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  const std::uint64_t part = header.control.data & kPartBits;
  Assembly* assembly = nullptr;
  for (Assembly& each : channel.assemblies)
    if (each.message == header.control.message) assembly = &each;
  if ((part == kFirstPart) != (assembly == nullptr) || header.control.segment_size != len)
    return protocol_error(channel, "a piece that belongs to no message");
  if (assembly == nullptr) assembly = begin_assembly(channel, header);
  if (assembly == nullptr) return;
  if (header.control.segment != assembly->next_segment || len > assembly->envelope.len - assembly->arrived)
    return protocol_error(channel, "pieces that make no message");
  const std::byte* payload = posted.buffer->bytes + sizeof header;
  if (assembly->delivery)
    rdm::scatter(assembly->delivery.iov(), assembly->arrived, payload, len);
  else if (assembly->unexpected != nullptr)
    std::copy_n(payload, len, assembly->unexpected->storage.get() + assembly->arrived);
  assembly->arrived += len;
  ++assembly->next_segment;
  if (part != kLastPart) return;
  if (assembly->arrived != assembly->envelope.len) return protocol_error(channel, "a message that lacks pieces");
  finish_assembly(*assembly);
}

// nullptr after a protocol error.
Assembly* Endpoint::begin_assembly(Channel& channel, const PacketHeader& header) noexcept {
  if (header.op.size > kMaxAssembled) {
    protocol_error(channel, "a message that is too long to come in pieces");
    return nullptr;
  }
  std::unique_ptr<Assembly> assembly(new (std::nothrow) Assembly);
  std::unique_ptr<Unexpected> message;
  bool complete = assembly != nullptr;
  if (complete) {
    assembly->message = header.control.message;
    assembly->envelope = envelope_of(*channel.peer, header.op);
    assembly->delivery = receives_.match(assembly->envelope);
    if (!assembly->delivery) {
      message.reset(new (std::nothrow) Unexpected);
      if (message != nullptr) message->storage.reset(new (std::nothrow) std::byte[header.op.size]);
      complete = message != nullptr && message->storage != nullptr;
    }
  }
  if (complete && message != nullptr) {
    message->kind = Unexpected::Kind::kPieces;
    message->channel = &channel;
    message->envelope = assembly->envelope;
    message->payload = message->storage.get();
    message->assembly = assembly.get();
    message->kept = sizeof *message + header.op.size;
    assembly->unexpected = message.get();
    complete = receives_.keep(*message);
  }
  if (!complete) {
    protocol_error(channel, "no memory for an unexpected message");
    return nullptr;
  }
  if (message != nullptr) channel.unexpected.push_back(*message.release());
  channel.assemblies.push_back(*assembly);
  return assembly.release();
}

void Endpoint::finish_assembly(Assembly& assembly) noexcept {
  static_cast<ListHook<Assembly>&>(assembly).unlink();
  if (assembly.delivery) {
    receives_.complete(assembly.delivery, assembly.envelope);
  } else if (Unexpected* message = assembly.unexpected; message != nullptr) {
    message->kind = Unexpected::Kind::kWhole;
    message->assembly = nullptr;
    static_cast<ListHook<Unexpected>&>(*message).unlink();
  }
  delete &assembly;
}

void Endpoint::fail_assembly(Assembly& assembly, int error) noexcept {
  static_cast<ListHook<Assembly>&>(assembly).unlink();
  if (assembly.delivery) receives_.fail(assembly.delivery, assembly.envelope, error, error);
  if (assembly.unexpected != nullptr) assembly.unexpected->assembly = nullptr;
  delete &assembly;
}

// One that did not come over the connection.
void Endpoint::on_notice(Channel& channel, const RendezvousPacket& notice) noexcept {
  const PacketHeader& header = notice.header;
  if (header.control.version != kControlVersion || header.control.type != PacketType::kRendezvous)
    return protocol_error(channel, "a notice of no message");
  if (may_be_message(channel, header.op))
    on_rendezvous(channel, header, reinterpret_cast<const std::byte*>(&notice.rendezvous),
                  sizeof notice - sizeof header);
}

// `bytes` follow the header, `len` of them.
void Endpoint::on_rendezvous(Channel& channel, const PacketHeader& header, const std::byte* bytes,
                             std::size_t len) noexcept {
  Notice notice;
  RendezvousHeader& rendezvous = notice.rendezvous;
  if (len < sizeof rendezvous) return protocol_error(channel, "a notice of a message that is cut");
  std::memcpy(&rendezvous, bytes, sizeof rendezvous);
  notice.has_direct = channel.direct.mutual() && len >= sizeof rendezvous + sizeof notice.direct;
  if (notice.has_direct) std::memcpy(&notice.direct, bytes + sizeof rendezvous, sizeof notice.direct);
  if (total_of(rendezvous) != header.op.size) return protocol_error(channel, "a notice of a message that lies nowhere");
  const rdm::Envelope envelope = envelope_of(*channel.peer, header.op);
  if (const rdm::Delivery delivery = receives_.match(envelope))
    return fetch(channel, header.control.message, notice, envelope, delivery);
  std::unique_ptr<Unexpected> message(new (std::nothrow) Unexpected);
  if (message == nullptr) return protocol_error(channel, "no memory for an unexpected message");
  message->kind = Unexpected::Kind::kRendezvous;
  message->envelope = envelope;
  message->channel = &channel;
  message->message = header.control.message;
  message->notice = notice;
  message->kept = sizeof *message;
  if (!receives_.keep(*message)) return protocol_error(channel, "no memory for an unexpected message");
  channel.unexpected.push_back(*message.release());
}

void Endpoint::on_read_done(Channel& channel, const ControlHeader& header) noexcept {
  Transmit* transmit = awaiting(header.message);
  if (transmit == nullptr || transmit->channel != &channel) return protocol_error(channel, "an answer to no message");
  read_done(*transmit);
}

// The long message of that number that its receiver has not read; or nullptr.
Transmit* Endpoint::awaiting(std::uint64_t message) noexcept {
  Transmit* transmit = numbered(message);
  if (transmit == nullptr || !transmit->awaits_peer || transmit->operation > Operation::kTagged) return nullptr;
  return transmit;
}

void Endpoint::read_done(Transmit& transmit) noexcept {
  transmit.awaits_peer = false;
  const bool queued = static_cast<ListHook<Transmit>&>(transmit).linked();
  if (transmit.outstanding == 0 && !queued) finish(transmit);
}

void Endpoint::take(rdm::Message& taken, const rdm::Delivery& delivery) noexcept {
  auto& message = static_cast<Unexpected&>(taken);
  const rdm::Envelope& envelope = message.envelope;
  if (message.dead) {
    receives_.fail(delivery, envelope, FI_ECONNRESET, FI_ECONNRESET);
  } else if (message.kind == Unexpected::Kind::kRendezvous) {
    fetch(*message.channel, message.message, message.notice, envelope, delivery);
  } else if (Assembly* assembly = message.assembly; assembly != nullptr) {
    assembly->delivery = delivery;
    assembly->unexpected = nullptr;
    rdm::scatter(delivery.iov(), 0, message.payload, std::min(assembly->arrived, delivery.capacity()));
  } else {
    rdm::scatter(delivery.iov(), 0, message.payload, std::min(envelope.len, delivery.capacity()));
    receives_.complete(delivery, envelope);
  }
  release(message);
}

void Endpoint::discard(rdm::Message& discarded) noexcept {
  auto& message = static_cast<Unexpected&>(discarded);
  if (message.assembly != nullptr) message.assembly->unexpected = nullptr;
  if (message.kind == Unexpected::Kind::kRendezvous && !message.dead)
    tell_done(*message.channel, PacketType::kReadDone, message.message);
  release(message);
}

// What was kept makes room; peers that had to wait may go on.
void Endpoint::release(Unexpected& message) noexcept {
  if (message.buffer != nullptr) buffers_.give_back(*message.buffer);
  delete &message;
  if (!held_ || pushes_back()) return;
  held_ = false;
  engine().wake_sleepers();
  post_left_over();
  for (Channel& channel : channels_)
    if (!channel.unposted.empty()) stall(channel);
}

}  // namespace weft::rxm
