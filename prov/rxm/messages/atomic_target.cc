// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations of peers, which the endpoint executes when it makes progress; atomic_requests.cc.
#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <bit>
#include <cstring>

#include "rdm/atomic_target.h"
#include "rxm/messages/receiver.h"

namespace weft::rxm {
namespace {

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

void Receiver::on_atomic(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  rdm::ReceivedAtomic demand;
  const std::byte* const payload = posted.buffer->bytes + sizeof header;
  if (!read_request(header, payload, len, services_.eager_limit, demand))
    return protocol_error(channel, "an invalid request for an atomic operation");
  Packet* packet = packets_.make(channel);
  if (packet == nullptr) return protocol_error(channel, "no memory for a response");
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

}  // namespace weft::rxm
