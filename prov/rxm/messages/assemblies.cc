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

}  // namespace

void Receiver::on_segment(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  const std::uint64_t part = header.control.data & kPartBits;
  Assembly* assembly = nullptr;
  for (Assembly& each : channel.assemblies)
    if (each.message == header.control.message) assembly = &each;
  if ((part == kFirstPart) != (assembly == nullptr) || header.control.segment_size != len)
    return protocol_error(channel, "a segment of an unknown message");
  if (assembly == nullptr) assembly = begin_assembly(channel, header);
  if (assembly == nullptr) return;
  if (header.control.segment != assembly->next_segment || len > assembly->envelope.len - assembly->arrived)
    return protocol_error(channel, "segments that do not fit together");
  const std::byte* payload = posted.buffer->bytes + sizeof header;
  if (assembly->delivery)
    scatter(assembly->delivery.iov(), assembly->arrived, payload, len);
  else if (assembly->unexpected != nullptr)
    std::copy_n(payload, len, assembly->unexpected->storage.get() + assembly->arrived);
  assembly->arrived += len;
  ++assembly->next_segment;
  if (part != kLastPart) return;
  if (assembly->arrived != assembly->envelope.len) return protocol_error(channel, "a message that lacks segments");
  finish_assembly(*assembly);
}

// nullptr after a protocol error.
Assembly* Receiver::begin_assembly(Channel& channel, const PacketHeader& header) noexcept {
  if (header.op.size > kMaxAssembled) {
    protocol_error(channel, "a message that is too long for segments");
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
    message->kind = Unexpected::Kind::kSegments;
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
