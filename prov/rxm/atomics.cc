// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations: a packet asks for one, the peer's endpoint carries it out when it makes progress and answers;
// fi_atomic(3). The devices below are not asked to: what they do and what the processor does to one word would not be
// atomic towards each other.
#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "objects/message_buffers.h"
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

// Elements in all of them; more than `limit` for lists that cannot be right.
template <class Ioc>
std::size_t total_count(std::span<const Ioc> list, std::size_t limit) noexcept {
  std::size_t count = 0;
  for (const Ioc& each : list) {
    if (each.count > limit) return limit + 1;
    count += each.count;
  }
  return count;
}

bool holds(std::span<const fi_ioc> list, std::size_t count) noexcept {
  return list.size() <= kIovLimit && total_count(list, count) == count &&
         std::all_of(list.begin(), list.end(),
                     [](const fi_ioc& each) { return each.addr != nullptr || each.count == 0; });
}

std::byte* append(std::byte* to, std::span<const fi_ioc> list, std::size_t size) noexcept {
  for (const fi_ioc& each : list) {
    if (each.count != 0) std::memcpy(to, each.addr, each.count * size);
    to += each.count * size;
  }
  return to;
}

// What a packet asks for, as far as it makes sense.
struct Asked {
  AtomicKind kind;
  fi_datatype datatype;
  fi_op operation;
  std::size_t size;    // of an element
  std::size_t bytes;   // of one array
  std::size_t ranges;  // of `where`
  AtomicHeader where;
  const std::byte* operands;
  const std::byte* compares;

  std::size_t result_len() const noexcept { return kind == AtomicKind::kUpdate ? 0 : bytes; }
};

// False for a packet that makes no sense. `payload` is what follows the packet header.
bool read_request(const PacketHeader& header, const std::byte* payload, std::size_t len, Asked& asked) noexcept {
  if (header.op.op < PacketOp::kAtomic || header.op.op > PacketOp::kCompare) return false;
  if (header.op.size != len || len < sizeof asked.where) return false;
  const auto words = std::bit_cast<AtomicWords>(header.op.tag);
  asked.kind = static_cast<AtomicKind>(static_cast<int>(header.op.op) - static_cast<int>(PacketOp::kAtomic));
  asked.datatype = static_cast<fi_datatype>(words.datatype);
  asked.operation = static_cast<fi_op>(words.operation);
  asked.ranges = words.count;
  if (!rdm::has_atomic(asked.kind, asked.datatype, asked.operation)) return false;
  if (asked.ranges == 0 || asked.ranges > kMaxRanges) return false;
  std::memcpy(&asked.where, payload, sizeof asked.where);
  asked.size = rdm::element_size(asked.datatype);
  std::size_t count = 0;
  // No more elements than a packet has bytes; what is only read does not come along.
  constexpr std::size_t kMost = 1 << 16;
  for (std::size_t i = 0; i < asked.ranges; ++i) {
    if (asked.where.ranges[i].len > kMost) return false;
    count += asked.where.ranges[i].len;
  }
  asked.bytes = count * asked.size;
  const std::size_t arrays = asked.kind == AtomicKind::kCompare ? 2 : asked.operation == FI_ATOMIC_READ ? 0 : 1;
  asked.operands = payload + sizeof asked.where;
  asked.compares = asked.operands + asked.bytes;
  return arrays * asked.bytes == len - sizeof asked.where;
}

// Where the ranges lie here; all of them, or a negative error and nothing is touched.
int find_targets(MemoryRegions& regions, const Asked& asked, void* (&targets)[kMaxRanges]) noexcept {
  const std::uint64_t access = rdm::atomic_access(asked.kind, asked.operation);
  for (std::size_t i = 0; i < asked.ranges; ++i) {
    const RemoteRange& range = asked.where.ranges[i];
    const auto target = regions.check(range.key, range.addr, range.len * asked.size, access);
    if (!target) return target.error().code();
    targets[i] = *target;
  }
  return 0;
}

// FI_RMA_EVENT: fi_endpoint(3) counts those that fetch as reads, fi_mr(3) those that modify a region as its writes.
void count_atomic(CompletionRoutes& routes, MemoryRegions& regions, const Asked& asked) noexcept {
  CounterCore* counter = (asked.kind == AtomicKind::kUpdate ? routes.remote_write : routes.remote_read).get();
  if (counter != nullptr) counter->add(1);
  for (std::size_t i = 0; i < asked.ranges && regions.has_counters(); ++i)
    regions.count_access(asked.where.ranges[i].key, rdm::atomic_access(asked.kind, asked.operation));
}

void carry_out(const Asked& asked, void* const (&targets)[kMaxRanges], std::byte* results) noexcept {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < asked.ranges; ++i) {
    rdm::apply_atomic(asked.datatype, asked.operation,
                      {.target = targets[i],
                       .operand = asked.operation == FI_ATOMIC_READ ? nullptr : asked.operands + offset,
                       .compare = asked.kind == AtomicKind::kCompare ? asked.compares + offset : nullptr,
                       .result = asked.kind == AtomicKind::kUpdate ? nullptr : results + offset,
                       .count = asked.where.ranges[i].len});
    offset += asked.where.ranges[i].len * asked.size;
  }
}

}  // namespace

// The origin.

std::size_t Endpoint::atomic_count(rdm::AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept {
  return domain_.atomic_count(kind, datatype, operation);
}

ssize_t Endpoint::check(const AtomicRequest& request) noexcept {
  const std::size_t most = domain_.atomic_count(request.kind, request.datatype, request.operation);
  if (most == 0) return -FI_EOPNOTSUPP;
  if (request.remote.data() == nullptr || request.remote.size() > kMaxRanges) return -FI_EINVAL;
  const std::size_t count = total_count(request.remote, most);
  if (count == 0) return -FI_EINVAL;
  if (count > most) return -FI_EMSGSIZE;
  if (request.operation != FI_ATOMIC_READ && !holds(request.operands, count)) return -FI_EINVAL;
  if (request.kind == AtomicKind::kCompare && !holds(request.compares, count)) return -FI_EINVAL;
  if (request.kind != AtomicKind::kUpdate && !holds(request.results, count)) return -FI_EINVAL;
  return (request.flags & FI_REMOTE_CQ_DATA) != 0 ? -FI_EBADFLAGS : 0;
}

// All of it but what depends on the connection. nullptr when memory runs out.
Buffer* Endpoint::make_atomic_packet(const AtomicRequest& request) noexcept {
  Buffer* buffer = buffers_.take();
  if (buffer == nullptr) return nullptr;
  const std::size_t size = rdm::element_size(request.datatype);
  AtomicHeader where;
  for (std::size_t i = 0; i < request.remote.size(); ++i)
    where.ranges[i] = {request.remote[i].addr, request.remote[i].count, request.remote[i].key};
  std::byte* const payload = buffer->bytes + sizeof(PacketHeader);
  std::memcpy(payload, &where, sizeof where);
  std::byte* end = payload + sizeof where;
  if (request.operation != FI_ATOMIC_READ) end = append(end, request.operands, size);
  if (request.kind == AtomicKind::kCompare) end = append(end, request.compares, size);
  PacketHeader header;
  header.control.type = PacketType::kAtomic;
  header.op.op = packet_op(request.kind);
  header.op.size = static_cast<std::uint64_t>(end - payload);
  header.op.tag = std::bit_cast<std::uint64_t>(AtomicWords{.datatype = static_cast<std::uint8_t>(request.datatype),
                                                           .operation = static_cast<std::uint8_t>(request.operation),
                                                           .count = static_cast<std::uint8_t>(request.remote.size())});
  std::memcpy(buffer->bytes, &header, sizeof header);
  return buffer;
}

ssize_t Endpoint::update(const AtomicRequest& request) noexcept {
  if (const ssize_t wrong = check(request); wrong != 0) return wrong;
  const std::size_t size = rdm::element_size(request.datatype);
  iovec results[kIovLimit];
  std::size_t len = 0, count = 0;
  for (const fi_ioc& each : request.results) {
    results[count++] = {each.addr, each.count * size};
    len += each.count * size;
  }
  Lock lock(engine().mutex());
  Peer* peer = peer_of(request.peer);
  if (peer == nullptr) return -FI_EINVAL;
  Buffer* buffer = make_atomic_packet(request);
  if (buffer == nullptr) return -FI_EAGAIN;
  const ssize_t result =
      queue(*peer,
            {.operation = request.kind == AtomicKind::kUpdate ? Operation::kUpdate : Operation::kFetch,
             .iov = {results, count},
             .flags = request.flags,
             .context = request.context,
             .silent = request.silent,
             .routes = request.routes},
            len, buffer);
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
  Asked asked;
  if (!read_request(header, posted.buffer->bytes + sizeof header, len, asked))
    return protocol_error(channel, "a request for an update that makes no sense");
  if (asked.result_len() > eager_limit_) return protocol_error(channel, "a request for more than a packet holds");
  Packet* packet = make_packet(channel);
  if (packet == nullptr) return protocol_error(channel, "no memory for an answer");
  std::byte* const results = packet->buffer->bytes + sizeof header + sizeof(AtomicResponse);
  void* targets[kMaxRanges];
  const int status = find_targets(domain_.regions(), asked, targets);
  if (status == 0) {
    carry_out(asked, targets, results);
    count_atomic(routes_, domain_.regions(), asked);
  }
  const std::size_t fetched = status == 0 ? asked.result_len() : 0;
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
