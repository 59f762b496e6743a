// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations: a packet asks for one, the peer's endpoint carries it out when it makes progress and answers;
// fi_atomic(3). The devices below are not asked to: what they do and what the processor does to one word would not be
// atomic towards each other.
#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <bit>
#include <cstring>

#include "objects/message_buffers.h"
#include "rdm/atomic_target.h"
#include "rxm/domain.h"
#include "rxm/endpoint.h"

namespace weft::rxm {
namespace {

using rdm::AtomicKind;

constexpr PacketOp packet_op(AtomicKind kind) noexcept {
  return static_cast<PacketOp>(static_cast<int>(PacketOp::kAtomic) + static_cast<int>(kind));
}
static_assert(packet_op(AtomicKind::kFetch) == PacketOp::kFetch &&
              packet_op(AtomicKind::kCompare) == PacketOp::kCompare);

// False for a packet that makes no sense. `payload` is what follows the packet header, `limit` what an answer holds.
bool read_request(const PacketHeader& header, const std::byte* payload, std::size_t len, std::size_t limit,
                  rdm::AtomicDemand& demand) noexcept {
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

// The origin.

std::size_t Endpoint::atomic_count(rdm::AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept {
  return rdm::atomic_count(domain_.atomic_limit(), kind, datatype, operation);
}

// All of it but what depends on the connection. nullptr when memory runs out.
Buffer* Endpoint::make_atomic_packet(const AtomicRequest& request, std::span<const iovec> arrays) noexcept {
  Buffer* buffer = buffers_.take();
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

ssize_t Endpoint::update(const AtomicRequest& request) noexcept {
  const std::size_t most = atomic_count(request.kind, request.datatype, request.operation);
  if (const int wrong = rdm::check_atomic(request, most); wrong != 0) return wrong;
  const rdm::AtomicBuffers buffers(request);
  Lock lock(engine().mutex());
  Peer* peer = peer_of(request.peer);
  if (peer == nullptr) return -FI_EINVAL;
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
  if (result != 0) buffers_.give_back(*buffer);
  return result;
}

// The lower provider would carry out a read or write before the peer's endpoint gets to the packet in front of it.
bool Endpoint::waits_for_atomics(const Transmit& transmit) noexcept {
  return (transmit.operation == Operation::kRead || transmit.operation == Operation::kWrite) &&
         transmit.peer->channel->atomics != 0;
}

ssize_t Endpoint::start_atomic(Channel& channel, Transmit& transmit) noexcept {
  Packet* packet = packets_.take();
  if (packet == nullptr) return -FI_EAGAIN;
  if (number(transmit) == 0) {
    packets_.give_back(packet);
    return -FI_EAGAIN;
  }
  PacketHeader header;
  std::memcpy(&header, transmit.atomic->bytes, sizeof header);
  header.control.connection = channel.remote_id;
  header.control.message = transmit.message;
  std::memcpy(transmit.atomic->bytes, &header, sizeof header);
  packet->channel = &channel;
  packet->buffer = transmit.atomic;
  packet->len = sizeof header + header.op.size;
  packet->owner = &transmit;
  if (const ssize_t result = send_packet(*packet); result != 0) {
    packets_.give_back(packet);
    return result;
  }
  transmit.atomic = nullptr;
  transmit.awaits_peer = true;
  ++transmit.outstanding;
  ++channel.atomics;
  return 0;
}

// It is over: its packet is given back, or what waited for the answer may go on.
void Endpoint::release_atomic(Transmit& transmit) noexcept {
  if (transmit.atomic != nullptr) return buffers_.give_back(*transmit.atomic);
  Channel& channel = *transmit.channel;
  if (--channel.atomics == 0 && channel.state == Channel::State::kOpen && !transmit.peer->waiting.empty())
    stall(channel);
}

void Endpoint::on_atomic_response(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  Transmit* transmit = numbered(header.control.message);
  AtomicResponse response;
  if (transmit == nullptr || transmit->channel != &channel || !transmit->awaits_peer ||
      transmit->operation < Operation::kUpdate || len < sizeof response)
    return protocol_error(channel, "an answer to no operation");
  const std::byte* payload = posted.buffer->bytes + sizeof header;
  std::memcpy(&response, payload, sizeof response);
  const auto status = static_cast<std::int32_t>(ntohl(response.status));
  const std::size_t fetched = len - sizeof response;
  if (ntohl(response.len) != fetched || (status == 0 ? fetched != transmit->len : status > 0))
    return protocol_error(channel, "an answer that does not fit its operation");
  if (status != 0) {
    transmit->error = -status;
  } else {
    rdm::scatter({transmit->iov, transmit->iov_count}, 0, payload + sizeof response, fetched);
  }
  transmit->awaits_peer = false;
  if (transmit->outstanding == 0) finish(*transmit);
}

// The target.

void Endpoint::on_atomic(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  rdm::AtomicDemand demand;
  const std::byte* const payload = posted.buffer->bytes + sizeof header;
  if (!read_request(header, payload, len, eager_limit_, demand))
    return protocol_error(channel, "a request for an update that makes no sense");
  Packet* packet = make_packet(channel);
  if (packet == nullptr) return protocol_error(channel, "no memory for an answer");
  std::byte* const results = packet->buffer->bytes + sizeof header + sizeof(AtomicResponse);
  const int status = demand.carry_out(domain_.regions(), routes_, payload + sizeof(AtomicHeader), results);
  const std::size_t fetched = status == 0 ? demand.result_len() : 0;
  const AtomicResponse response{.status = htonl(static_cast<std::uint32_t>(status)),
                                .len = htonl(static_cast<std::uint32_t>(fetched))};
  PacketHeader answer;
  answer.control.type = PacketType::kAtomicResponse;
  answer.control.connection = channel.remote_id;
  answer.control.message = header.control.message;
  answer.op.op = header.op.op;
  answer.op.size = sizeof response + fetched;
  std::memcpy(packet->buffer->bytes, &answer, sizeof answer);
  std::memcpy(packet->buffer->bytes + sizeof answer, &response, sizeof response);
  packet->len = sizeof answer + sizeof response + fetched;
  post_packet(*packet);
}

}  // namespace weft::rxm
