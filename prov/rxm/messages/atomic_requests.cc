// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations of the application, fi_atomic(3): a packet requests one, the peer's endpoint executes it when it
// makes progress and sends a response (receiver.cc). The devices below are not used: an update by a device and one
// by the processor would not be atomic towards each other.
#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <bit>
#include <cstring>

#include "objects/message_buffers.h"
#include "rxm/messages/sender.h"

namespace weft::rxm {
namespace {

constexpr PacketOp packet_op(AtomicKind kind) noexcept {
  return static_cast<PacketOp>(static_cast<int>(PacketOp::kAtomic) + static_cast<int>(kind));
}
static_assert(packet_op(AtomicKind::kFetch) == PacketOp::kFetch &&
              packet_op(AtomicKind::kCompare) == PacketOp::kCompare);

}  // namespace

// The packet without the fields that depend on the connection; nullptr when memory runs out.
Buffer* Sender::make_atomic_packet(const AtomicRequest& request, std::span<const iovec> arrays) noexcept {
  Buffer* buffer = services_.buffers.take();
  if (buffer == nullptr) return nullptr;
  AtomicHeader where;
  for (std::size_t i = 0; i < request.remote.size(); ++i)
    where.ranges[i] = {request.remote[i].addr, request.remote[i].count, request.remote[i].key};
  std::byte* const payload = buffer->bytes + sizeof(PacketHeader);
  std::memcpy(payload, &where, sizeof where);
  gather(arrays, payload + sizeof where);
  PacketHeader header;
  header.control.type = PacketType::kAtomic;
  header.op.op = packet_op(request.kind);
  header.op.size = sizeof where + total_length(arrays);
  header.op.tag = std::bit_cast<std::uint64_t>(AtomicWords{.datatype = static_cast<std::uint8_t>(request.datatype),
                                                           .operation = static_cast<std::uint8_t>(request.operation),
                                                           .count = static_cast<std::uint8_t>(request.remote.size())});
  std::memcpy(buffer->bytes, &header, sizeof header);
  return buffer;
}

ssize_t Sender::update(const AtomicRequest& request) noexcept {
  const std::size_t most =
      rdm::atomic_count(services_.domain.atomic_limit(), request.kind, request.datatype, request.operation);
  if (const int wrong = check_atomic(request, most); wrong != 0) return wrong;
  if ((request.flags & kUnsupportedFlags) != 0) return -FI_EBADFLAGS;
  const rdm::AtomicBuffers buffers(request);
  if (DeviceMemory* devices = services_.devices;
      devices != nullptr && (devices->includes(buffers.sent()) || devices->includes(buffers.results())))
    return -FI_EOPNOTSUPP;  // the processor executes it
  Lock lock(services_.engine.mutex());
  Peer* peer = services_.peer_of(request.peer);
  if (peer == nullptr) return rdm::no_peer(*services_.vector, request.peer);
  Buffer* buffer = make_atomic_packet(request, buffers.sent());
  if (buffer == nullptr) return -FI_EAGAIN;
  const ssize_t result =
      queue(*peer,
            {.operation = request.kind == AtomicKind::kUpdate ? Operation::kUpdate : Operation::kFetch,
             .iov = buffers.results(),
             .flags = request.flags,
             .context = request.context,
             .silent = request.silent,
             .routes = request.routes},
            total_length(buffers.results()), buffer);
  if (result != 0) Buffers::give_back(*buffer);
  return result;
}

ssize_t Sender::start_atomic(Channel& channel, Transmit& transmit) noexcept {
  Packet* packet = packets_.make(channel, *transmit.atomic);
  if (packet == nullptr) return -FI_EAGAIN;
  PacketHeader header;
  std::memcpy(&header, transmit.atomic->bytes, sizeof header);
  header.control.connection = channel.remote_id;
  header.control.message = numbers_.assign(transmit);
  std::memcpy(transmit.atomic->bytes, &header, sizeof header);
  packet->len = sizeof header + header.op.size;
  packet->owner = &transmit;
  const ssize_t result = transmit.message != 0 ? packets_.send(*packet) : -FI_EAGAIN;
  if (result != 0) {
    packets_.drop(*packet);
    return result;
  }
  transmit.atomic = nullptr;
  transmit.awaits_peer = true;
  ++transmit.outstanding;
  ++channel.atomics;
  return 0;
}

// The operation has ended: releases its packet, or resumes the operations that waited for the response.
void Sender::release_atomic(Transmit& transmit) noexcept {
  if (transmit.atomic != nullptr) return Buffers::give_back(*transmit.atomic);
  Channel& channel = *transmit.channel;
  if (--channel.atomics == 0 && channel.state == Channel::State::kOpen && !transmit.peer->waiting.empty())
    services_.retry_later(channel);
}

void Sender::on_atomic_response(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  Transmit* transmit = numbers_.find(header.control.message);
  AtomicResponse response;
  if (transmit == nullptr || transmit->channel != &channel || !transmit->awaits_peer ||
      transmit->request.operation < Operation::kUpdate || len < sizeof response)
    return services_.links->protocol_error(channel, "response to an unknown operation");
  const std::byte* payload = posted.buffer->bytes + sizeof header;
  std::memcpy(&response, payload, sizeof response);
  const auto status = static_cast<std::int32_t>(ntohl(response.status));
  const std::size_t fetched = len - sizeof response;
  if (ntohl(response.len) != fetched || (status == 0 ? fetched != transmit->len : status > 0))
    return services_.links->protocol_error(channel, "response that does not fit its operation");
  if (status != 0)
    transmit->error = -status;
  else
    scatter(transmit->buffers(), 0, payload + sizeof response, fetched);
  transmit->awaits_peer = false;
  finish_if_done(*transmit);
}

}  // namespace weft::rxm
