// SPDX-License-Identifier: BSD-2-Clause
// What an endpoint sends: at once if it is short, as packets if it is longer, or as a notice of where it lies.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "objects/message_buffers.h"
#include "rxm/domain.h"
#include "rxm/endpoint.h"

namespace weft::rxm {

using rdm::completion_flags_of;

namespace {

constexpr std::size_t kStackPacket = 512;

// Copies `len` bytes of `iov` that begin `offset` bytes into it.
void gather(std::span<const iovec> iov, std::size_t offset, std::byte* to, std::size_t len) noexcept {
  for (const iovec& piece : iov) {
    if (offset >= piece.iov_len) {
      offset -= piece.iov_len;
      continue;
    }
    const std::size_t size = std::min(piece.iov_len - offset, len);
    if (size != 0) std::memcpy(to, static_cast<const std::byte*>(piece.iov_base) + offset, size);
    to += size;
    len -= size;
    offset = 0;
    if (len == 0) break;
  }
}

void fill_header(const Channel& channel, const TransmitRequest& what, std::size_t len, PacketHeader& header) noexcept {
  header.control.connection = channel.remote_id;
  header.op.receive_index = what.receive_context;
  header.op.op = what.operation == Operation::kTagged ? PacketOp::kTagged : PacketOp::kMessage;
  header.op.flags = static_cast<std::uint32_t>(what.flags & FI_REMOTE_CQ_DATA);
  header.op.size = len;
  header.op.data = what.data;
  header.op.tag = what.tag;
}

// Makes the operation's memory a copy of ours, in one piece. False when memory runs out.
bool gather_copy(Transmit& transmit) noexcept {
  transmit.copy.reset(new (std::nothrow) std::byte[transmit.len]);
  if (transmit.copy == nullptr) return false;
  gather({transmit.iov, transmit.iov_count}, 0, transmit.copy.get(), transmit.len);
  transmit.iov[0] = {transmit.copy.get(), transmit.len};
  transmit.iov_count = 1;
  return true;
}

TransmitRequest request_of(const Transmit& transmit) noexcept {
  return {.operation = transmit.operation,
          .flags = transmit.has_data ? FI_REMOTE_CQ_DATA : uint64_t{0},
          .data = transmit.data,
          .tag = transmit.tag,
          .receive_context = transmit.receive_context};
}

}  // namespace

// What the lower provider copies is over with this call. False: it has to take the long way.
[[gnu::always_inline]] inline bool Endpoint::try_inject(Channel& channel, const TransmitRequest& request,
                                                        std::size_t len) noexcept {
  if ((request.flags & (kLowerLevels | FI_FENCE)) != 0 || request.operation > Operation::kTagged) return false;
  if (len + sizeof(PacketHeader) > std::min(lower_inject_, kStackPacket)) return false;
  alignas(PacketHeader) std::byte bytes[kStackPacket];
  fill_header(channel, request, len, *new (bytes) PacketHeader);
  weft::gather(request.iov, bytes + sizeof(PacketHeader));
  if (fi_inject(channel.ep, bytes, sizeof(PacketHeader) + len, FI_ADDR_UNSPEC) != 0) return false;
  engine().note_given();
  channel.count_sent();
  ++channel.activity;
  CompletionRoutes& routes = routes_of(request);
  const bool report = !request.silent && routes.reports_sent(request.flags);
  routes.transmitted(completion_flags_of(request.operation), request.context, report);
  return true;
}

ssize_t Endpoint::transmit(TransmitRequest&& request) noexcept {
  if (!rdm::name_context(request, *vector_)) return -FI_EINVAL;
  if (!valid_buffers(request.iov, kIovLimit)) return -FI_EINVAL;
  if (!request.remote.empty() &&
      request.remote.size() > std::min(domain_.lower_info().tx_attr->rma_iov_limit, kMaxRanges))
    return -FI_EINVAL;
  const std::size_t len = total_length(request.iov);
  if (len > max_message_ || ((request.flags & FI_INJECT) != 0 && len > eager_limit_)) return -FI_EMSGSIZE;
  Lock lock(engine().mutex());
  Peer* peer = peer_of(request.destination);
  if (peer == nullptr) return -FI_EINVAL;
  Channel* channel = peer->channel;
  const bool open = channel != nullptr && channel->takes();
  if (open && peer->waiting.empty() && try_inject(*channel, request, len)) return 0;
  return queue(*peer, request, len, nullptr);
}

// Starts the operation, or lets it wait for the connection or for room. `atomic` is taken over if it returns 0.
ssize_t Endpoint::queue(Peer& peer, const TransmitRequest& request, std::size_t len, Buffer* atomic) noexcept {
  if (outstanding_ >= tx_size_) return -FI_EAGAIN;
  if (peer.channel == nullptr && !static_cast<ListHook<Peer>&>(peer).linked())
    if (Status status = connect(peer); !status.ok()) return status.code();
  Transmit* record = make_transmit(peer, request, len);
  if (record == nullptr) return -FI_EAGAIN;
  record->atomic = atomic;
  peer.waiting.push_back(*record);
  if (peer.channel != nullptr && peer.channel->takes()) flush(peer);
  return 0;
}

Transmit* Endpoint::make_transmit(Peer& peer, const TransmitRequest& request, std::size_t len) noexcept {
  Transmit* transmit = transmits_.take();
  if (transmit == nullptr) return nullptr;
  std::copy(request.iov.begin(), request.iov.end(), transmit->iov);
  transmit->iov_count = static_cast<std::uint32_t>(request.iov.size());
  transmit->len = len;
  const bool copied = (request.flags & FI_INJECT) != 0 && len != 0 && request.operation < Operation::kUpdate;
  if (copied && !gather_copy(*transmit)) {
    transmits_.give_back(transmit);
    return nullptr;
  }
  transmit->peer = &peer;
  transmit->context = request.context;
  transmit->operation = request.operation;
  transmit->completion_flags = completion_flags_of(request.operation);
  transmit->routes = &routes_of(request);
  transmit->receive_context = request.receive_context;
  transmit->report = !request.silent && transmit->routes->reports_sent(request.flags);
  transmit->fenced = (request.flags & FI_FENCE) != 0;
  transmit->has_data = (request.flags & FI_REMOTE_CQ_DATA) != 0;
  transmit->lower_flags = request.flags & domain_.levels();
  transmit->data = request.data;
  transmit->tag = request.tag;
  for (const fi_rma_iov& range : request.remote)
    transmit->ranges[transmit->range_count++] = {range.addr, range.len, range.key};
  ++outstanding_;
  return transmit;
}

// Starts what waits for the peer, in order, as far as the lower provider takes it.
void Endpoint::flush(Peer& peer) noexcept {
  while (!peer.waiting.empty()) {
    Transmit& transmit = peer.waiting.front();
    if (transmit.error == 0) {
      if (peer.channel == nullptr || !peer.channel->takes()) return;
      if (transmit.fenced && !peer.channel->flight.empty() && transmit.channel == nullptr) return;  // see finish()
      if (waits_for_atomics(transmit)) return;
      const ssize_t result = start(*peer.channel, transmit);
      if (result == -FI_EAGAIN) return stall(*peer.channel);
      if (result < 0) transmit.error = reason_of(result);
    }
    static_cast<ListHook<Transmit>&>(transmit).unlink();
    if (transmit.outstanding == 0 && (!transmit.awaits_peer || transmit.error != 0)) finish(transmit);
  }
}

// 0, -FI_EAGAIN, or the error that the operation fails with.
ssize_t Endpoint::start(Channel& channel, Transmit& transmit) noexcept {
  transmit.channel = &channel;
  ++channel.activity;
  if (!static_cast<ListHook<FlightTag>&>(transmit).linked()) channel.flight.push_back(transmit);
  if (transmit.operation >= Operation::kUpdate) return start_atomic(channel, transmit);
  if (transmit.operation > Operation::kTagged) return start_rma(channel, transmit);
  if (transmit.len <= eager_limit_) return start_eager(channel, transmit);
  return transmit.len <= segment_limit_ && segments_ ? start_segments(channel, transmit)
                                                     : start_rendezvous(channel, transmit);
}

ssize_t Endpoint::start_eager(Channel& channel, Transmit& transmit) noexcept {
  ssize_t result;
  if (domain_.registers_locally() || transmit.iov_count >= lower_iov_limit_) {
    Packet* packet = make_packet(channel);
    if (packet == nullptr) return -FI_EAGAIN;
    PacketHeader header;
    fill_header(channel, request_of(transmit), transmit.len, header);
    std::memcpy(packet->buffer->bytes, &header, sizeof header);
    gather({transmit.iov, transmit.iov_count}, 0, packet->buffer->bytes + sizeof header, transmit.len);
    packet->len = sizeof header + transmit.len;
    return send_for(transmit, *packet);
  } else {
    fill_header(channel, request_of(transmit), transmit.len, transmit.packet.header);
    iovec iov[kIovLimit + 1];
    iov[0] = {&transmit.packet.header, sizeof(PacketHeader)};
    std::copy_n(transmit.iov, transmit.iov_count, iov + 1);
    const fi_msg message{iov, nullptr, transmit.iov_count + 1, FI_ADDR_UNSPEC, &transmit.space, 0};
    result = fi_sendmsg(channel.ep, &message, transmit.lower_flags | FI_COMPLETION);
  }
  if (result != 0) return result;
  channel.count_sent();
  ++channel.works;
  ++transmit.outstanding;
  return 0;
}

// Sends a packet that is (a part of) an operation; -FI_EAGAIN leaves nothing behind.
ssize_t Endpoint::send_for(Transmit& transmit, Packet& packet) noexcept {
  packet.owner = &transmit;
  packet.lower_flags = transmit.lower_flags;
  const ssize_t result = send_packet(packet);
  if (result != 0) {
    release(packet);
    return result;
  }
  ++transmit.outstanding;
  return 0;
}

ssize_t Endpoint::start_segments(Channel& channel, Transmit& transmit) noexcept {
  while (transmit.sent < transmit.len) {
    Packet* packet = make_packet(channel);
    if (packet == nullptr) return -FI_EAGAIN;
    const std::size_t size = std::min(eager_limit_, transmit.len - transmit.sent);
    PacketHeader header;
    fill_header(channel, request_of(transmit), transmit.len, header);
    header.control.type = PacketType::kSegment;
    header.control.segment_size = static_cast<std::uint16_t>(size);
    header.control.segment = transmit.segment;
    header.control.message = number(transmit);
    header.control.data = transmit.sent == 0                     ? kFirstPart
                          : transmit.sent + size == transmit.len ? kLastPart
                                                                 : kMiddlePart;
    std::memcpy(packet->buffer->bytes, &header, sizeof header);
    gather({transmit.iov, transmit.iov_count}, transmit.sent, packet->buffer->bytes + sizeof header, size);
    packet->len = sizeof header + size;
    if (const ssize_t result = send_for(transmit, *packet); result != 0) return result;
    transmit.sent += size;
    ++transmit.segment;
  }
  return 0;
}

ssize_t Endpoint::start_rendezvous(Channel& channel, Transmit& transmit) noexcept {
  // A read of several ranges would be one access, but one of each region.
  if (remote_reads_ != nullptr && transmit.iov_count > 1 && !gather_copy(transmit)) return -FI_ENOMEM;
  RendezvousPacket& packet = transmit.packet;
  fill_header(channel, request_of(transmit), transmit.len, packet.header);
  packet.header.control.type = PacketType::kRendezvous;
  packet.header.control.message = number(transmit);
  packet.rendezvous.count = static_cast<std::uint8_t>(transmit.iov_count);
  const std::size_t len = sizeof packet - (channel.direct.mutual() ? 0 : sizeof packet.direct);
  for (std::uint32_t i = 0; i < transmit.iov_count; ++i) {
    const iovec& piece = transmit.iov[i];
    if (transmit.regions[i] == nullptr) {
      auto region = register_message(piece.iov_base, piece.iov_len, FI_REMOTE_READ | FI_WRITE);
      if (!region) return region.error().code();
      transmit.regions[i] = std::move(*region);
    }
    packet.rendezvous.ranges[i] = {domain_.remote_address(piece.iov_base), piece.iov_len,
                                   fi_mr_key(transmit.regions[i].get())};
    packet.direct.places[i] = reinterpret_cast<std::uintptr_t>(piece.iov_base);
  }
  transmit.awaits_peer = true;
  if (channel.direct.mutual()) {
    const bool by_letter = channel.lane == kNoLane || !board_.is_used(channel.lane);
    if (by_letter && !std::exchange(transmit.awaits_letter, true)) ++awaited_letters_;
    if (put_notice(channel, packet)) return 0;
  }
  if (domain_.registers_locally()) {
    Packet* copy = make_packet(channel);
    if (copy == nullptr) return -FI_EAGAIN;
    std::memcpy(copy->buffer->bytes, &packet, len);
    copy->len = len;
    return send_for(transmit, *copy);
  }
  if (const ssize_t result = fi_send(channel.ep, &packet, len, nullptr, FI_ADDR_UNSPEC, &transmit.space); result != 0)
    return result;
  channel.count_sent();
  ++channel.works;
  ++transmit.outstanding;
  return 0;
}

ssize_t Endpoint::start_rma(Channel& channel, Transmit& transmit) noexcept {
  const bool reads = transmit.operation == Operation::kRead;
  void* descs[kIovLimit] = {};
  for (std::uint32_t i = 0; domain_.registers_locally() && i < transmit.iov_count; ++i) {
    if (transmit.iov[i].iov_len == 0) continue;
    if (transmit.regions[i] == nullptr) {
      auto region =
          domain_.register_memory(transmit.iov[i].iov_base, transmit.iov[i].iov_len, reads ? FI_READ : FI_WRITE);
      if (!region) return region.error().code();
      transmit.regions[i] = std::move(*region);
    }
    descs[i] = fi_mr_desc(transmit.regions[i].get());
  }
  fi_rma_iov ranges[kMaxRanges];
  for (std::uint32_t i = 0; i < transmit.range_count; ++i)
    ranges[i] = {transmit.ranges[i].addr, transmit.ranges[i].len, transmit.ranges[i].key};
  const fi_msg_rma message{transmit.iov,         descs,           transmit.iov_count, FI_ADDR_UNSPEC, ranges,
                           transmit.range_count, &transmit.space, transmit.data};
  const uint64_t flags = transmit.lower_flags | FI_COMPLETION | (transmit.has_data ? FI_REMOTE_CQ_DATA : 0);
  const ssize_t result = reads ? fi_readmsg(channel.ep, &message, flags) : fi_writemsg(channel.ep, &message, flags);
  if (result != 0) return result;
  channel.accesses = true;
  ++channel.works;
  ++transmit.outstanding;
  return 0;
}

// `error` is positive, or 0.
void Endpoint::lower_finished(Transmit& transmit, int error) noexcept {
  --transmit.outstanding;
  if (error != 0 && transmit.error == 0) transmit.error = error;
  const bool queued = static_cast<ListHook<Transmit>&>(transmit).linked();
  if (transmit.outstanding == 0 && !queued && (!transmit.awaits_peer || transmit.error != 0)) finish(transmit);
}

void Endpoint::finish(Transmit& transmit, std::string_view sentence) noexcept {
  static_cast<ListHook<Transmit>&>(transmit).unlink();
  static_cast<ListHook<FlightTag>&>(transmit).unlink();
  if (transmit.message != 0) {
    const auto index = static_cast<std::uint32_t>(transmit.message);
    numbers_[index].first = nullptr;
    free_numbers_.push_back(index);  // has room since the number was given
  }
  for (Lower<fid_mr>& region : transmit.regions) region.reset();
  if (transmit.operation >= Operation::kUpdate) release_atomic(transmit);
  --outstanding_;
  if (transmit.awaits_letter) --awaited_letters_;
  if (transmit.error != 0)
    transmit.routes->transmit_failed(transmit.completion_flags, transmit.context, transmit.error, transmit.error,
                                     sentence);
  else
    transmit.routes->transmitted(transmit.completion_flags, transmit.context, transmit.report);
  Channel* const channel = transmit.channel;
  Peer& peer = *transmit.peer;
  transmits_.give_back(&transmit);
  // What is fenced in may go, once others are through with this.
  if (channel == nullptr || channel != peer.channel || !channel->flight.empty() || peer.waiting.empty()) return;
  if (channel->state == Channel::State::kOpen && peer.waiting.front().fenced) stall(*channel);
}

// The number that a peer answers with; 0 when memory runs out, which no answer bears.
std::uint64_t Endpoint::number(Transmit& transmit) noexcept {
  if (transmit.message != 0) return transmit.message;
  if (free_numbers_.empty()) {
    try {
      numbers_.emplace_back(nullptr, 0);
      free_numbers_.reserve(numbers_.size());
      free_numbers_.push_back(static_cast<std::uint32_t>(numbers_.size() - 1));
    } catch (const std::bad_alloc&) {
      return 0;
    }
  }
  const std::uint32_t index = free_numbers_.back();
  free_numbers_.pop_back();
  auto& [holder, uses] = numbers_[index];
  holder = &transmit;
  if (++uses == 0) ++uses;
  return transmit.message = std::uint64_t{uses} << 32 | index;
}

Transmit* Endpoint::numbered(std::uint64_t message) noexcept {
  const auto index = static_cast<std::uint32_t>(message);
  if (index >= numbers_.size() || numbers_[index].second != message >> 32) return nullptr;
  return numbers_[index].first;
}

Packet* Endpoint::make_packet(Channel& channel) noexcept {
  Packet* packet = packets_.take();
  if (packet == nullptr) return nullptr;
  packet->buffer = buffers_.take();
  if (packet->buffer == nullptr) {
    packets_.give_back(packet);
    return nullptr;
  }
  packet->channel = &channel;
  return packet;
}

ssize_t Endpoint::send_packet(Packet& packet) noexcept {
  const iovec iov{packet.buffer->bytes, packet.len};
  void* desc = packet.buffer->desc;
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, &packet.space, 0};
  const ssize_t result = fi_sendmsg(packet.channel->ep, &message, packet.lower_flags | FI_COMPLETION);
  if (result == 0) packet.channel->count_sent(), ++packet.channel->works;
  return result;
}

// Sends a packet of our own now or later. What a peer sends may be here before it is known to be connected.
void Endpoint::post_packet(Packet& packet) noexcept {
  Channel& channel = *packet.channel;
  const bool may_go = channel.state == Channel::State::kOpen && channel.packets.empty();
  const ssize_t result = may_go ? send_packet(packet) : -FI_EAGAIN;
  if (result == 0) return;
  if (result != -FI_EAGAIN) return release(packet);  // the connection is ending
  channel.packets.push_back(packet);
  ++channel.packet_count;
  if (channel.state == Channel::State::kOpen) stall(channel);
}

void Endpoint::release(Packet& packet) noexcept {
  static_cast<ListHook<Packet>&>(packet).unlink();
  buffers_.give_back(*packet.buffer);
  packets_.give_back(&packet);
}

void Endpoint::packet_finished(Packet& packet, int error) noexcept {
  Transmit* owner = packet.owner;
  release(packet);
  if (owner != nullptr) lower_finished(*owner, error);
}

}  // namespace weft::rxm
