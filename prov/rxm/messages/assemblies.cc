// SPDX-License-Identifier: BSD-2-Clause
// Messages that arrive in segments, in order; see receiver.h.
#include <algorithm>
#include <new>

#include "objects/message_buffers.h"
#include "rxm/messages/receiver.h"

namespace weft::rxm {
namespace {

// Bytes of a message in segments. An unexpected one is kept whole, so its size must be bounded.
constexpr std::size_t kMaxAssembled = std::size_t{16} * 1024 * 1024;
// Messages of a peer whose segments arrive at once. Senders send one message after the other.
constexpr unsigned kMaxAssemblies = 64;

}  // namespace

void Receiver::on_segment(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  const std::uint64_t part = header.control.data & kPartBits;
  Assembly* assembly = nullptr;
  unsigned pending = 0;
  for (Assembly& each : channel.assemblies) {
    if (each.message == header.control.message) assembly = &each;
    ++pending;
  }
  if ((part == kFirstPart) != (assembly == nullptr) || header.control.segment_size != len ||
      (assembly == nullptr && pending == kMaxAssemblies))
    return protocol_error(channel, "a segment of an unknown message");
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
  if (assembly->arrived != assembly->envelope.len) return protocol_error(channel, "a message that lacks segments");
  finish_assembly(*assembly);
}

// nullptr after a protocol error.
Assembly* Receiver::begin_assembly(Channel& channel, const PacketHeader& header) noexcept {
  const bool fits = header.op.size <= kMaxAssembled;
  std::unique_ptr<Assembly> assembly(fits ? new (std::nothrow) Assembly : nullptr);
  if (assembly == nullptr) {
    protocol_error(channel, fits ? "no memory for a message in segments" : "a message that is too long for segments");
    return nullptr;
  }
  assembly->message = header.control.message;
  assembly->envelope = envelope_of(*channel.peer, header.op);
  assembly->delivery = receives_.match(assembly->envelope);
  if (!assembly->delivery) {
    Unexpected* const message = keep(channel, assembly->envelope, header.op.size);
    if (message == nullptr) return nullptr;
    message->kind = Unexpected::Kind::kSegments;
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
    message->kind = Unexpected::Kind::kWhole;
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
