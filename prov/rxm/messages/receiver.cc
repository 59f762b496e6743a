// SPDX-License-Identifier: BSD-2-Clause
// Packets of peers, and delivery of their messages; see receiver.h.
#include "rxm/messages/receiver.h"

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "objects/message_buffers.h"
#include "rdm/atomics.h"
#include "rxm/logging.h"

namespace weft::rxm {
namespace {

// Messages of a peer whose segments arrive at once. Senders send one message after the other.
constexpr unsigned kMaxAssemblies = 64;

// False for an invalid packet. `payload` follows the packet header; `limit`: bytes that a response has room for.
bool read_request(const PacketHeader& header, const std::byte* payload, std::size_t len, std::size_t limit,
                  rdm::ReceivedAtomic& demand) noexcept {
  AtomicHeader where;
  if (header.op.op < PacketOp::kAtomic || header.op.op > PacketOp::kCompare) return false;
  if (header.op.size != len || len < sizeof where) return false;
  std::memcpy(&where, payload, sizeof where);
  const auto words = std::bit_cast<AtomicWords>(header.op.tag);
  if (words.count > kMaxRanges) return false;
  rdm::AtomicRange ranges[kMaxRanges];
  for (std::size_t i = 0; i < words.count; ++i)
    ranges[i] = {where.ranges[i].addr, where.ranges[i].len, where.ranges[i].key};
  const unsigned kind = static_cast<unsigned>(header.op.op) - static_cast<unsigned>(PacketOp::kAtomic);
  return demand.read({kind, words.datatype, words.operation}, {ranges, words.count}, len - sizeof where, limit);
}

}  // namespace

Receiver::Receiver(EndpointServices& services, Packets& packets, PostedBuffers& posted, Sender& sender,
                   Rendezvous& rendezvous, rdm::ReceiveSide& receives) noexcept
    : services_(services),
      packets_(packets),
      posted_(posted),
      sender_(sender),
      rendezvous_(rendezvous),
      receives_(receives) {}

// False after a protocol error.
inline bool Receiver::may_be_message(Channel& channel, const OpHeader& op) noexcept {
  if (op.op > PacketOp::kTagged) [[unlikely]] {
    protocol_error(channel, "packet for an unknown operation");
    return false;
  }
  if (receives_.takes(op.receive_index)) [[likely]]
    return true;
  protocol_error(channel, "message for a nonexistent receive context");
  return false;
}

// False: the receive has failed, because its memory is an accelerator's. Peers with FI_HMEM send all messages by
// rendezvous.
inline bool Receiver::may_copy(const rdm::Delivery& delivery, const rdm::Envelope& envelope) noexcept {
  DeviceMemory* const devices = services_.devices;
  if (devices == nullptr || envelope.len == 0 || !devices->includes(delivery.iov())) return true;
  FI_WARN(
      &provider(), FI_LOG_EP_DATA,
      "a message of %zu bytes for device memory came from a peer without FI_HMEM, which sends it by the processor\n",
      envelope.len);
  receives_.fail(delivery, envelope, FI_EOPNOTSUPP, FI_EOPNOTSUPP);
  return false;
}

[[gnu::always_inline]] inline void Receiver::deliver(Channel& channel, const rdm::Envelope& envelope,
                                                     const std::byte* payload) noexcept {
  if (services_.devices != nullptr) [[unlikely]]
    return deliver_slowly(channel, rdm::Envelope(envelope), payload);
  if (receives_.deliver({payload, envelope.len}, envelope)) [[likely]]
    return;
  const rdm::Envelope copy = envelope;  // so that `envelope` itself may stay in registers
  keep_whole(channel, copy, payload);
}

[[gnu::noinline]] void Receiver::deliver_slowly(Channel& channel, const rdm::Envelope& envelope,
                                                const std::byte* payload) noexcept {
  const rdm::Delivery delivery = receives_.match(envelope);
  if (!delivery) return keep_whole(channel, envelope, payload);
  if (!may_copy(delivery, envelope)) return;
  delivery.write({payload, envelope.len});
  receives_.complete(delivery, envelope);
}

[[gnu::noinline]] void Receiver::keep_whole(Channel& channel, const rdm::Envelope& envelope,
                                            const std::byte* payload) noexcept {
  Unexpected* const message = keep(channel, envelope, envelope.len);
  if (message != nullptr) std::copy_n(payload, envelope.len, message->payload.get());
}

// `len`: bytes after the header.
[[gnu::always_inline]] inline void Receiver::on_eager(PostedBuffer& posted, const PacketHeader& header,
                                                      std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  if (!may_be_message(channel, header.op)) return;
  if (header.op.size != len) return protocol_error(channel, "message whose length differs from its header");
  deliver(channel, envelope_of(*channel.peer, header.op), posted.buffer->bytes + sizeof header);
}

// Most packets are a header and a whole message; they are handled inline.
[[gnu::always_inline]] inline void Receiver::handle_packet(PostedBuffer& posted,
                                                           const fi_cq_tagged_entry& entry) noexcept {
  if ((entry.flags & FI_TAGGED) == 0 && entry.len >= sizeof(PacketHeader)) [[likely]] {
    const PacketHeader& header = posted.buffer->header();
    if (header.control.version == kControlVersion && header.control.type == PacketType::kEager) [[likely]] {
      ++posted.channel->activity;
      return on_eager(posted, header, entry.len - sizeof header);
    }
  }
  handle_other_packet(posted, entry);
}

// False when memory runs out: the packet must be handled again.
[[gnu::always_inline]] inline bool Receiver::try_packet(PostedBuffer& posted,
                                                        const fi_cq_tagged_entry& entry) noexcept {
  if (posted.channel->state != Channel::State::kClosed) handle_packet(posted, entry);
  return !std::exchange(starved_, false);
}

void Receiver::on_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept {
  if (posted.shared) {
    posted.channel = posted_.sender_of(posted, entry.len);
    if (posted.channel != nullptr && posted.channel->is_throttled()) [[unlikely]]
      protocol_error(*posted.channel, "the peer does not read our responses");
  }
  if (posted.channel != nullptr && posted.channel->state != Channel::State::kClosed) {
    Channel& channel = *posted.channel;
    if (!channel.stalled.empty() || !try_packet(posted, entry)) [[unlikely]] {
      std::memcpy(&posted.space, &entry, sizeof entry);
      channel.stalled.push_back(posted);
      return services_.retry_later(channel);
    }
  }
  posted_.post(posted);
}

void Receiver::retry(Channel& channel) noexcept {
  while (!channel.stalled.empty()) {
    PostedBuffer& posted = channel.stalled.pop_front();
    fi_cq_tagged_entry entry;
    static_assert(sizeof entry <= sizeof posted.space);
    std::memcpy(&entry, &posted.space, sizeof entry);
    if (!try_packet(posted, entry)) {
      channel.stalled.push_front(posted);
      return services_.retry_later(channel);
    }
    posted_.post(posted);
  }
}

void Receiver::handle_other_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept {
  Channel& channel = *posted.channel;
  const std::byte* bytes = posted.buffer->bytes;
  PacketHeader header;
  if ((entry.flags & FI_TAGGED) != 0) {
    ++channel.activity;
    const rdm::Envelope envelope{.source = channel.peer->id,
                                 .tag = entry.tag,
                                 .data = entry.data,
                                 .len = entry.len,
                                 .name = services_.name_of(*channel.peer),
                                 .tagged = true,
                                 .has_data = (entry.flags & FI_REMOTE_CQ_DATA) != 0};
    return deliver(channel, envelope, bytes);
  }
  if (entry.len < sizeof header.control) return protocol_error(channel, "packet without a header");
  std::memcpy(&header, bytes, std::min(entry.len, sizeof header));
  const ControlHeader& control = header.control;
  if (control.version != kControlVersion) return protocol_error(channel, "packet of another version");
  if (control.type == PacketType::kScarce) {
    channel.scarcity.announces = control.message != 0;
    return;
  }
  if (control.type == PacketType::kCredit) return on_credits(channel, control.data);
  if (control.type == PacketType::kIdleClose) return services_.links->on_idle_close(channel, control.message);
  ++channel.activity;
  if (control.type == PacketType::kReadDone) return on_read_done(channel, control);
  if (control.type == PacketType::kWriteDone) return rendezvous_.on_write_done(channel, control);
  if (entry.len < sizeof header) return protocol_error(channel, "packet with a truncated header");
  on_message_packet(posted, header, entry.len - sizeof header);
}

// Handles multi-packet messages and control packets. `len`: bytes after the header.
void Receiver::on_message_packet(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  switch (header.control.type) {
    case PacketType::kAtomic:
      return on_atomic(posted, header, len);
    case PacketType::kAtomicResponse:
      return sender_.on_atomic_response(posted, header, len);
    case PacketType::kWriteTarget:
      return rendezvous_.on_write_target(posted, header, len);
    case PacketType::kAnsweredEager:
      on_eager(posted, header, len);
      if (!starved_) packets_.post_control(channel, PacketType::kReadDone, header.control.message);
      return;
    case PacketType::kSegment:
    case PacketType::kAnsweredSegment:
      if (may_be_message(channel, header.op)) on_segment(posted, header, len);
      return;
    case PacketType::kRendezvous:
      if (may_be_message(channel, header.op)) on_rendezvous(channel, header, posted.buffer->bytes + sizeof header, len);
      return;
    default:
      return protocol_error(channel, "packet of unknown type");
  }
}

// A message with memory for `payload` bytes; it is kept. nullptr: memory has run out.
Unexpected* Receiver::keep(Channel& channel, const rdm::Envelope& envelope, std::size_t payload) noexcept {
  std::unique_ptr<Unexpected> message(new (std::nothrow) Unexpected);
  if (message != nullptr && payload != 0) message->payload.reset(new (std::nothrow) std::byte[payload]);
  if (message == nullptr || (payload != 0 && message->payload == nullptr)) {
    log_lack_of_memory();
    starved_ = true;
    return nullptr;
  }
  message->envelope = envelope;
  message->set_peer(*channel.peer);
  message->charge(posted_.memory_of(channel), sizeof *message + payload);
  receives_.keep(*message);
  if (channel.scarcity.supported && !channel.scarcity.reported && posted_.memory_of(channel).is_scarce()) [[unlikely]]
    services_.retry_later(channel);
  return message.release();
}

void Receiver::report_scarcity(Channel& channel) noexcept {
  const bool scarce = posted_.memory_of(channel).awaits_room();
  if (!channel.scarcity.supported || channel.scarcity.reported == scarce) return;
  channel.scarcity.reported = scarce;
  packets_.post_control(channel, PacketType::kScarce, scarce ? 1 : 0);
}

// `bytes`: the `len` bytes behind the header.
void Receiver::on_rendezvous(Channel& channel, const PacketHeader& header, const std::byte* bytes,
                             std::size_t len) noexcept {
  RendezvousHeader rendezvous;
  if (len < sizeof rendezvous) return protocol_error(channel, "truncated rendezvous");
  std::memcpy(&rendezvous, bytes, sizeof rendezvous);
  if (total_of(rendezvous) != header.op.size)
    return protocol_error(channel, "rendezvous whose ranges differ from its length");
  const rdm::Envelope envelope = envelope_of(*channel.peer, header.op);
  if (const rdm::Delivery delivery = receives_.match(envelope))
    return rendezvous_.fetch(channel, header.control.message, rendezvous, envelope, delivery);
  Unexpected* const message = keep(channel, envelope, 0);
  if (message == nullptr) return;
  message->rendezvous = true;
  message->channel = &channel;
  message->message = header.control.message;
  message->place = rendezvous;
  channel.unexpected.push_back(*message);
}

void Receiver::on_credits(Channel& channel, std::uint64_t count) noexcept {
  if (!channel.credits.counted || count > UINT32_MAX) return protocol_error(channel, "invalid report of receives");
  channel.credits.left += count;
  services_.retry_later(channel);
}

void Receiver::on_read_done(Channel& channel, const ControlHeader& header) noexcept {
  Transmit* transmit = sender_.find_unacknowledged(channel, header.message);
  if (transmit == nullptr) return protocol_error(channel, "acknowledgement of an unknown message");
  sender_.on_acknowledged(*transmit);
}

void Receiver::take(rdm::Message& taken, const rdm::Delivery& delivery) noexcept {
  auto& message = static_cast<Unexpected&>(taken);
  const rdm::Envelope& envelope = message.envelope;
  if (message.dead) {
    receives_.fail(delivery, envelope, FI_ECONNRESET, FI_ECONNRESET);
  } else if (message.rendezvous) {
    List<Unexpected>::unlink(message);  // fetching may close the connection: see discard()
    rendezvous_.fetch(*message.channel, message.message, message.place, envelope, delivery);
  } else if (Assembly* assembly = message.assembly; assembly != nullptr) {
    assembly->unexpected = nullptr;
    assembly->envelope.name = envelope.name;
    if (may_copy(delivery, envelope)) assembly->delivery = delivery;
    if (assembly->delivery) delivery.write({message.payload.get(), assembly->arrived});
  } else if (may_copy(delivery, envelope)) {
    delivery.write({message.payload.get(), envelope.len});
    receives_.complete(delivery, envelope);
  }
  delete &message;
}

void Receiver::discard(rdm::Message& discarded) noexcept {
  auto& message = static_cast<Unexpected&>(discarded);
  if (message.assembly != nullptr) message.assembly->unexpected = nullptr;
  // Without memory for the answer the connection is closed. Then on_closed() must not find the message.
  List<Unexpected>::unlink(message);
  if (message.rendezvous && !message.dead)
    packets_.post_control(*message.channel, PacketType::kReadDone, message.message);
  delete &message;
}

// The endpoint executes atomic operations of peers when it makes progress; atomic_requests.cc.
void Receiver::on_atomic(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  rdm::ReceivedAtomic demand;
  const std::byte* const payload = posted.buffer->bytes + sizeof header;
  if (!read_request(header, payload, len, services_.eager_limit, demand))
    return protocol_error(channel, "invalid request for an atomic operation");
  Packet* packet = packets_.make(channel);
  if (packet == nullptr) {
    starved_ = true;
    return;
  }
  std::byte* const results = packet->buffer->bytes + sizeof header + sizeof(AtomicResponse);
  const int status =
      demand.execute(services_.domain.regions(), services_.routes, payload + sizeof(AtomicHeader), results);
  const std::size_t fetched = status == 0 ? demand.result_len() : 0;
  const AtomicResponse response{.status = htonl(static_cast<std::uint32_t>(status)),
                                .len = htonl(static_cast<std::uint32_t>(fetched))};
  PacketHeader answer = Packets::header(channel, PacketType::kAtomicResponse, header.control.message);
  answer.op.op = header.op.op;
  answer.op.size = sizeof response + fetched;
  std::memcpy(packet->buffer->bytes, &answer, sizeof answer);
  std::memcpy(packet->buffer->bytes + sizeof answer, &response, sizeof response);
  packet->len = sizeof answer + sizeof response + fetched;
  packets_.post(*packet);
}

bool Receiver::discard_for(Channel& channel, const rdm::ReceiveSide& context) noexcept {
  const auto is_there = [&](const auto& each) { return receives_.meets_at(context, each.delivery, each.envelope); };
  for (Assembly& each : channel.assemblies)
    if (is_there(each)) receives_.fail(std::exchange(each.delivery, {}), each.envelope, FI_ECANCELED, FI_ECANCELED);
  bool others = false;
  channel.copies.for_each([&](const RemoteCopy& each) { others |= is_there(each); });
  channel.targets.for_each([&](const WriteTarget& each) { others |= is_there(each); });
  return others;
}

void Receiver::on_closed(Channel& channel, int error) noexcept {
  while (!channel.unexpected.empty()) {
    Unexpected& message = channel.unexpected.pop_front();
    message.dead = true;
    message.channel = nullptr;
    if (!posted_.pushes_back(channel)) continue;
    receives_.drop(message);  // otherwise a peer that reconnects repeatedly could fill memory
    discard(message);
  }
  while (!channel.assemblies.empty()) fail_assembly(channel.assemblies.front(), error);
}

// ---- Messages that arrive in segments, in order ----

void Receiver::on_segment(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  const std::uint64_t part = header.control.data & kPartBits;
  Assembly* assembly = nullptr;
  unsigned pending = 0;
  std::size_t missing = 0;
  for (Assembly& each : channel.assemblies) {
    if (each.message == header.control.message) assembly = &each;
    if (each.unexpected != nullptr) missing += each.envelope.len - each.arrived;
    ++pending;
  }
  if ((part == kFirstPart) != (assembly == nullptr) || header.control.segment_size != len)
    return protocol_error(channel, "segment of an unknown message");
  if (assembly == nullptr &&
      (pending == kMaxAssemblies || missing > max_assembled() - std::min(max_assembled(), header.op.size)))
    return protocol_error(channel, "too many messages in segments at once");
  if (assembly == nullptr) assembly = begin_assembly(channel, header);
  if (assembly == nullptr) return;
  if (header.control.segment != assembly->next_segment || len > assembly->envelope.len - assembly->arrived)
    return protocol_error(channel, "segments that do not fit together");
  const std::byte* payload = posted.buffer->bytes + sizeof header;
  if (assembly->delivery)
    scatter(assembly->delivery.iov(), assembly->arrived, payload, len);
  else if (assembly->unexpected != nullptr)
    std::copy_n(payload, len, assembly->unexpected->payload.get() + assembly->arrived);
  assembly->arrived += len;
  ++assembly->next_segment;
  if (part != kLastPart) return;
  if (assembly->arrived != assembly->envelope.len) return protocol_error(channel, "message that lacks segments");
  const bool answered = assembly->answered;
  finish_assembly(*assembly);
  if (answered) packets_.post_control(channel, PacketType::kReadDone, header.control.message);
}

// nullptr after a protocol error.
Assembly* Receiver::begin_assembly(Channel& channel, const PacketHeader& header) noexcept {
  const bool fits = header.op.size <= max_assembled();
  std::unique_ptr<Assembly> assembly(fits ? new (std::nothrow) Assembly : nullptr);
  if (assembly == nullptr) {
    if (fits)
      starved_ = true;
    else
      protocol_error(channel, "message that is too long for segments");
    return nullptr;
  }
  assembly->message = header.control.message;
  assembly->answered = header.control.type == PacketType::kAnsweredSegment;
  assembly->envelope = envelope_of(*channel.peer, header.op);
  assembly->delivery = receives_.match(assembly->envelope);
  if (assembly->delivery) {
    if (!may_copy(assembly->delivery, assembly->envelope)) assembly->delivery = {};  // the rest is dropped
  } else {
    Unexpected* const message = keep(channel, assembly->envelope, header.op.size);
    if (message == nullptr) return nullptr;
    message->channel = &channel;
    message->assembly = assembly.get();
    assembly->unexpected = message;
    channel.unexpected.push_back(*message);
  }
  channel.assemblies.push_back(*assembly);
  return assembly.release();
}

void Receiver::finish_assembly(Assembly& assembly) noexcept {
  assembly.unlink();
  if (assembly.delivery) {
    receives_.complete(assembly.delivery, assembly.envelope);
  } else if (Unexpected* message = assembly.unexpected; message != nullptr) {
    message->assembly = nullptr;
    List<Unexpected>::unlink(*message);
  }
  delete &assembly;
}

void Receiver::fail_assembly(Assembly& assembly, int error) noexcept {
  assembly.unlink();
  if (assembly.delivery) receives_.fail(assembly.delivery, assembly.envelope, error, error);
  if (assembly.unexpected != nullptr) assembly.unexpected->assembly = nullptr;
  delete &assembly;
}

}  // namespace weft::rxm
