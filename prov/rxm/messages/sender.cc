// SPDX-License-Identifier: BSD-2-Clause
// Sending of messages, reads and writes; see sender.h.
#include "rxm/messages/sender.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "objects/message_buffers.h"

namespace weft::rxm {

namespace {

constexpr std::size_t kStackPacket = 512;

void fill_header(const Channel& channel, const TransmitRequest& request, std::size_t len,
                 PacketHeader& header) noexcept {
  header.control.connection = channel.remote_id;
  header.op.receive_index = request.receive_context;
  header.op.op = request.operation == Operation::kTagged ? PacketOp::kTagged : PacketOp::kMessage;
  header.op.flags = static_cast<std::uint32_t>(request.flags & FI_REMOTE_CQ_DATA);
  header.op.size = len;
  header.op.data = request.data;
  header.op.tag = request.tag;
}

// The error that check_transmit() would find first. Only failing calls come here, so successful ones pay nothing.
[[gnu::noinline, gnu::cold]] ssize_t refusal(const TransmitRequest& request, ssize_t error) noexcept {
  return (request.flags & kUnsupportedFlags) != 0 ? -FI_EBADFLAGS : error;
}

// Replaces the operation's memory by a contiguous copy. False when memory runs out.
bool gather_copy(Transmit& transmit) noexcept {
  transmit.copy.reset(new (std::nothrow) std::byte[transmit.len]);
  if (transmit.copy == nullptr) return false;
  gather(transmit.buffers(), 0, transmit.copy.get(), transmit.len);
  transmit.iov[0] = {transmit.copy.get(), transmit.len};
  transmit.request.iov = {transmit.iov, 1};
  transmit.regions[0].reset();  // an attempt may have registered the original
  return true;
}

// The lower provider would execute a read or write before the peer's endpoint handles an earlier atomic operation.
bool waits_for_atomics(const Transmit& transmit) noexcept {
  const Operation operation = transmit.request.operation;
  return (operation == Operation::kRead || operation == Operation::kWrite) && transmit.peer->channel->atomics != 0;
}

}  // namespace

Sender::Sender(EndpointServices& services, Packets& packets) noexcept
    : services_(services),
      packets_(packets),
      segment_limit_(std::min(services.domain.fabric().parameters.segment_limit, kMaxAssembled)),
      max_message_(services.domain.lower_info().ep_attr->max_msg_size),
      short_message_(std::min({kStackPacket - sizeof(PacketHeader), services.eager_limit, max_message_})) {}

// The message completes.
[[gnu::always_inline]] inline void Sender::count_injected(Channel& channel, const TransmitRequest& request) noexcept {
  services_.engine.note_injected();
  --channel.credits.left;
  ++channel.activity;
  CompletionRoutes& routes = request.routes != nullptr ? *request.routes : services_.routes;
  const bool report = !request.silent && routes.reports_sent(request.flags);
  routes.transmitted(completion_flags_of(request.operation), request.context, report);
}

// Sends the message with a copy at the lower provider, so that it completes at once. False: it must be queued.
[[gnu::always_inline]] inline bool Sender::try_inject(Channel& channel, const TransmitRequest& request,
                                                      std::size_t len) noexcept {
  if ((request.flags & (kLowerLevels | kUnsupportedFlags | FI_FENCE)) != 0) return false;
  if (len + sizeof(PacketHeader) > channel.side->inject || !channel.credits.may_send()) return false;
  alignas(PacketHeader) std::byte bytes[kStackPacket];
  fill_header(channel, request, len, *new (bytes) PacketHeader);
  gather(request.iov, bytes + sizeof(PacketHeader));
  if (fi_inject(channel.ep, bytes, sizeof(PacketHeader) + len, FI_ADDR_UNSPEC) != 0) return false;
  count_injected(channel, request);
  return true;
}

// fi_inject(): the message must not wait here, since the program may wait for its peer by other means, without
// progress. 0; -FI_EAGAIN: there is no room; or another error: it must be queued.
[[gnu::noinline]] ssize_t Sender::inject_at_once(Channel& channel, const TransmitRequest& request,
                                                 std::size_t len) noexcept {
  const bool plain = request.operation <= Operation::kTagged && services_.devices == nullptr &&
                     (request.flags & (kLowerLevels | kUnsupportedFlags | FI_FENCE)) == 0;
  if (!plain || len > services_.eager_limit || len + sizeof(PacketHeader) > channel.side->inject ||
      !channel.credits.may_send() || channel.scarcity.announces)
    return -FI_EOPNOTSUPP;
  Packet* const packet = packets_.make(channel);
  if (packet == nullptr) return -FI_EAGAIN;
  std::byte* const bytes = packet->buffer->bytes;
  fill_header(channel, request, len, *new (bytes) PacketHeader);
  gather(request.iov, bytes + sizeof(PacketHeader));
  const ssize_t result = fi_inject(channel.ep, bytes, sizeof(PacketHeader) + len, FI_ADDR_UNSPEC);
  packets_.release(*packet);
  if (result == 0) count_injected(channel, request);
  return result;
}

// Checks an operation that is not a short message. 0, or a negative error.
[[gnu::noinline]] ssize_t Sender::check_long(const TransmitRequest& request, std::size_t len) noexcept {
  if (!request.remote.empty()) {
    const std::size_t most = std::min(services_.domain.lower_info().tx_attr->rma_iov_limit, kMaxRanges);
    if (const int wrong = check_ranges(request.remote, most, len); wrong != 0) return wrong;
  }
  const bool injected = (request.flags & FI_INJECT) != 0;
  if (injected && services_.devices != nullptr && services_.devices->includes(request.iov))
    return refusal(request, -FI_EOPNOTSUPP);  // the processor would copy it
  return len > max_message_ || (injected && len > services_.eager_limit) ? refusal(request, -FI_EMSGSIZE) : 0;
}

ssize_t Sender::transmit(TransmitRequest&& request) noexcept {
  if (!rdm::set_receive_context(request, *services_.vector)) return -FI_EINVAL;
  if (!valid_buffers(request.iov)) return -FI_EINVAL;
  const std::size_t len = total_length(request.iov);
  const bool is_short =
      len <= short_message_ && request.operation <= Operation::kTagged && services_.devices == nullptr;
  if (!is_short) [[unlikely]]
    if (const ssize_t error = check_long(request, len); error != 0) return error;
  Lock lock(services_.engine.mutex());
  Peer* peer = services_.peer_of(request.destination);
  if (peer == nullptr) return refusal(request, rdm::no_peer(*services_.vector, request.destination));
  Channel* channel = peer->channel;
  const bool open = channel != nullptr && channel->can_send();
  if (open && peer->waiting.empty()) {
    if (is_short && try_inject(*channel, request, len)) return 0;
    if (request.silent) {
      const ssize_t result = inject_at_once(*channel, request, len);
      if (result == 0 || result == -FI_EAGAIN) return result;
    }
  }
  if ((request.flags & kUnsupportedFlags) != 0) return -FI_EBADFLAGS;
  return queue(*peer, request, len, nullptr);
}

// Starts the operation, or queues it for the connection or for room. On 0, `atomic` belongs to the operation.
ssize_t Sender::queue(Peer& peer, const TransmitRequest& request, std::size_t len, Buffer* atomic) noexcept {
  if (outstanding_ >= services_.tx_size) return -FI_EAGAIN;
  if (peer.link == rdm::LinkState::kNone)
    if (Status status = services_.links->connect(peer); !status.ok()) return status.code();
  Transmit* record = make_transmit(peer, request, len);
  if (record == nullptr) return -FI_EAGAIN;
  record->atomic = atomic;
  peer.waiting.push_back(*record);
  if (peer.channel != nullptr && peer.channel->can_send())
    flush(peer);
  else if (record->request.silent)
    rdm::advance_contact(services_.engine, peer);
  return 0;
}

// Empty pieces cannot be registered. Returns the number of others, which are moved to the front.
static std::size_t drop_empty(std::span<iovec> pieces) noexcept {
  const auto end = std::remove_if(pieces.begin(), pieces.end(), [](const iovec& piece) { return piece.iov_len == 0; });
  return static_cast<std::size_t>(end - pieces.begin());
}

[[gnu::always_inline]] inline Transmit* Sender::make_transmit(Peer& peer, const TransmitRequest& request,
                                                              std::size_t len) noexcept {
  Transmit* transmit = transmits_.take();
  if (transmit == nullptr) return nullptr;
  transmit->peer = &peer;
  transmit->len = len;
  TransmitRequest& kept = transmit->request = request;
  std::copy(request.iov.begin(), request.iov.end(), transmit->iov);
  std::size_t pieces = request.iov.size();
  if (pieces > 1 && len != 0) pieces = drop_empty({transmit->iov, pieces});
  std::copy(request.remote.begin(), request.remote.end(), transmit->remote);
  kept.iov = {transmit->iov, pieces};
  kept.remote = {transmit->remote, request.remote.size()};
  kept.arrays = {};
  if (kept.routes == nullptr) kept.routes = &services_.routes;
  kept.silent = request.silent || !kept.routes->reports_sent(request.flags);
  const bool copied = transmit->has_flag(FI_INJECT) && len != 0 && request.operation < Operation::kUpdate;
  if (copied && !gather_copy(*transmit)) {
    log_lack_of_memory();
    transmits_.give_back(transmit);
    return nullptr;
  }
  ++outstanding_;
  return transmit;
}

void Sender::flush(Peer& peer) noexcept {
  while (!peer.waiting.empty()) {
    Transmit& transmit = peer.waiting.front();
    if (transmit.error == 0) {
      if (peer.channel == nullptr || !peer.channel->can_send()) return;
      const bool started = transmit.channel != nullptr;
      if (transmit.has_flag(FI_FENCE) && !started && !peer.channel->flight.empty()) return;  // see finish()
      if (waits_for_atomics(transmit)) return;
      const ssize_t result = start(*peer.channel, transmit);
      // -FI_ENOTCONN: the event of the connection's end follows, and fails the operation. If the operation failed here,
      // a program that posts another one for each completion could starve that event.
      if (result == -FI_EAGAIN || result == -FI_ENOTCONN) return services_.retry_packets_later(*peer.channel);
      if (result < 0) transmit.error = reason_of(result);
    }
    List<Transmit>::unlink(transmit);
    finish_if_done(transmit);
  }
}

// 0, -FI_EAGAIN, or the operation's error.
[[gnu::always_inline]] inline ssize_t Sender::start(Channel& channel, Transmit& transmit) noexcept {
  transmit.channel = &channel;
  ++channel.activity;
  if (!channel.flight.linked(transmit)) channel.flight.push_back(transmit);
  if (transmit.request.operation >= Operation::kUpdate) return start_atomic(channel, transmit);
  if (transmit.request.operation > Operation::kTagged) return start_rma(channel, transmit);
  // With FI_HMEM the memory of either end may be an accelerator's: its device moves each byte.
  if (services_.devices != nullptr && transmit.len != 0) return start_rendezvous(channel, transmit);
  if (channel.has_answers && transmit.has_flag(FI_DELIVERY_COMPLETE)) transmit.awaits_peer = true;
  if (channel.scarcity.announces && is_announced(channel, transmit)) [[unlikely]]
    return start_announced(channel, transmit);
  if (transmit.len <= services_.eager_limit) return start_eager(channel, transmit);
  // Over a byte stream messages are not cut into segments.
  const bool cut = transmit.len <= segment_limit_ && !channel.side->stream;
  return cut ? start_segments(channel, transmit) : start_rendezvous(channel, transmit);
}

// False when memory runs out.
bool Sender::describe(const Channel& channel, Transmit& transmit, PacketType type, PacketHeader& header) noexcept {
  fill_header(channel, transmit.request, transmit.len, header);
  header.control.type = type;
  header.control.message = type != PacketType::kEager ? numbers_.assign(transmit) : 0;
  return type == PacketType::kEager || header.control.message != 0;
}

ssize_t Sender::start_eager(Channel& channel, Transmit& transmit) noexcept {
  const std::size_t count = transmit.buffers().size();
  PacketHeader& header = transmit.packet.header;
  if (!describe(channel, transmit, transmit.awaits_peer ? PacketType::kAnsweredEager : PacketType::kEager, header))
    return -FI_EAGAIN;
  if (channel.side->registers || count >= channel.side->iov_limit)
    return send_part(channel, transmit, header, 0, transmit.len);
  iovec iov[kIovLimit + 1];
  iov[0] = {&header, sizeof header};
  std::copy_n(transmit.iov, count, iov + 1);
  const fi_msg message{iov, nullptr, count + 1, FI_ADDR_UNSPEC, &transmit.space, 0};
  const ssize_t result = fi_sendmsg(channel.ep, &message, levels_below(transmit) | FI_COMPLETION);
  if (result != 0) return result;
  count_started(channel, transmit);
  return 0;
}

void Sender::count_started(Channel& channel, Transmit& transmit) noexcept {
  ++channel.works.sends;
  ++transmit.outstanding;
}

// Sends a packet with a part of the message.
ssize_t Sender::send_part(Channel& channel, Transmit& transmit, const PacketHeader& header, std::size_t offset,
                          std::size_t len) noexcept {
  Packet* packet = packets_.make(channel);
  if (packet == nullptr) return -FI_EAGAIN;
  std::memcpy(packet->buffer->bytes, &header, sizeof header);
  gather(transmit.buffers(), offset, packet->buffer->bytes + sizeof header, len);
  packet->len = sizeof header + len;
  return send_for(transmit, *packet);
}

// Sends a packet of an operation; on failure the packet is released.
ssize_t Sender::send_for(Transmit& transmit, Packet& packet) noexcept {
  packet.owner = &transmit;
  packet.lower_flags = levels_below(transmit);
  const ssize_t result = packets_.send(packet);
  if (result != 0) {
    packets_.release(packet);
    return result;
  }
  ++transmit.outstanding;
  return 0;
}

ssize_t Sender::start_segments(Channel& channel, Transmit& transmit) noexcept {
  while (transmit.sent < transmit.len) {
    const std::size_t size = std::min(services_.eager_limit, transmit.len - transmit.sent);
    const PacketType type = transmit.awaits_peer ? PacketType::kAnsweredSegment : PacketType::kSegment;
    PacketHeader header;
    if (!describe(channel, transmit, type, header)) return -FI_EAGAIN;
    header.control.segment_size = static_cast<std::uint16_t>(size);
    header.control.segment = transmit.segment;
    header.control.data = transmit.sent == 0                     ? kFirstPart
                          : transmit.sent + size == transmit.len ? kLastPart
                                                                 : kMiddlePart;
    if (const ssize_t result = send_part(channel, transmit, header, transmit.sent, size); result != 0) return result;
    transmit.sent += size;
    ++transmit.segment;
  }
  return 0;
}

ssize_t Sender::describe_rendezvous(Channel& channel, Transmit& transmit) noexcept {
  // A read of several ranges is one access, but each region would count one.
  if (services_.remote_reads != nullptr && transmit.buffers().size() > 1 && !gather_copy(transmit)) return -FI_ENOMEM;
  RendezvousPacket& packet = transmit.packet;
  if (!describe(channel, transmit, PacketType::kRendezvous, packet.header)) return -FI_EAGAIN;
  packet.rendezvous.count = static_cast<std::uint8_t>(transmit.buffers().size());
  const bool readable =
      channel.memory != nullptr && transmit.buffers().size() == 1 && channel.memory->is_readable(channel.ep);
  packet.rendezvous.is_readable = readable ? 1 : 0;
  if (readable)
    packet.rendezvous.ranges[kMaxRanges - 1].addr = reinterpret_cast<std::uintptr_t>(transmit.iov[0].iov_base);
  for (std::size_t i = 0; i < transmit.buffers().size(); ++i) {
    const iovec& piece = transmit.iov[i];
    if (transmit.regions[i] == nullptr) {
      auto region = services_.register_message(*channel.side, piece.iov_base, piece.iov_len, FI_REMOTE_READ | FI_WRITE);
      if (!region) return region.error().code();
      transmit.regions[i] = std::move(*region);
    }
    packet.rendezvous.ranges[i] = {channel.side->remote_address(piece.iov_base), piece.iov_len,
                                   fi_mr_key(transmit.regions[i].get())};
  }
  return 0;
}

ssize_t Sender::start_rendezvous(Channel& channel, Transmit& transmit) noexcept {
  if (const ssize_t result = describe_rendezvous(channel, transmit); result != 0) return result;
  transmit.awaits_peer = true;
  if (channel.side->registers) {
    Packet* copy = packets_.make(channel);
    if (copy == nullptr) return -FI_EAGAIN;
    std::memcpy(copy->buffer->bytes, &transmit.packet, sizeof transmit.packet);
    copy->len = sizeof transmit.packet;
    return send_for(transmit, *copy);
  }
  const ssize_t result =
      fi_send(channel.ep, &transmit.packet, sizeof transmit.packet, nullptr, FI_ADDR_UNSPEC, &transmit.space);
  if (result != 0) return result;
  count_started(channel, transmit);
  return 0;
}

// Whether a message is announced because the peer's memory is scarce. Exceptions are messages whose delivery the
// application waits for, those of which a part was sent, and those that cannot be registered.
bool Sender::is_announced(Channel& channel, Transmit& transmit) noexcept {
  if (transmit.announced) return true;
  if (transmit.len < kLeastAnnounced || transmit.len > std::max(services_.eager_limit, segment_limit_)) return false;
  if (transmit.has_flag(kLowerLevels) || transmit.sent != 0) return false;
  const std::size_t size = sizeof transmit + transmit.len;
  const bool keeps = transmit.peer->copies.takes(size) && (transmit.copy != nullptr || gather_copy(transmit));
  if (describe_rendezvous(channel, transmit) != 0) return false;
  transmit.announced = true;
  if (keeps) transmit.peer->copies.add(transmit.kept = size);
  return true;
}

// The message completes at once, as an eager one does, if it can be copied: the copies for a peer may occupy as much as
// the peer's messages may here. Otherwise it completes when it is fetched.
ssize_t Sender::start_announced(Channel& channel, Transmit& transmit) noexcept {
  const ssize_t result = start_rendezvous(channel, transmit);
  if (result != 0 || transmit.kept == 0) return result;
  report(transmit);
  transmit.reported = true;
  List<Transmit, FlightTag>::unlink(transmit);
  channel.scarcity.kept.push_back(transmit);
  return 0;
}

ssize_t Sender::start_rma(Channel& channel, Transmit& transmit) noexcept {
  const bool reads = transmit.request.operation == Operation::kRead;
  LowerSide& side = *channel.side;
  void* descs[kIovLimit] = {};
  for (std::size_t i = 0; side.registers && i < transmit.buffers().size(); ++i) {
    if (transmit.iov[i].iov_len == 0) continue;
    if (transmit.regions[i] == nullptr) {
      auto region = services_.domain.register_memory(side, transmit.iov[i].iov_base, transmit.iov[i].iov_len,
                                                     reads ? FI_READ : FI_WRITE);
      if (!region) return region.error().code();
      transmit.regions[i] = std::move(*region);
    }
    descs[i] = fi_mr_desc(transmit.regions[i].get());
  }
  const fi_msg_rma message{transmit.iov,
                           descs,
                           transmit.buffers().size(),
                           FI_ADDR_UNSPEC,
                           transmit.remote,
                           transmit.request.remote.size(),
                           &transmit.space,
                           transmit.request.data};
  const uint64_t flags = (transmit.request.flags & (side.levels | FI_REMOTE_CQ_DATA)) | FI_COMPLETION;
  const ssize_t result = reads ? fi_readmsg(channel.ep, &message, flags) : fi_writemsg(channel.ep, &message, flags);
  if (result != 0) return result;
  count_started(channel, transmit);
  return 0;
}

// ---- Ends ----

void Sender::finish_if_done(Transmit& transmit) noexcept {
  if (transmit.outstanding == 0 && !transmit.is_queued() && (!transmit.awaits_peer || transmit.error != 0))
    finish(transmit);
}

void Sender::on_lower_completion(Transmit& transmit, int error) noexcept {
  --transmit.outstanding;
  if (error != 0 && transmit.error == 0) transmit.error = error;
  finish_if_done(transmit);
}

void Sender::on_packet_completion(Packet& packet, int error) noexcept {
  Transmit* owner = packet.owner;
  packets_.release(packet);
  if (owner != nullptr) on_lower_completion(*owner, error);
}

Transmit* Sender::find_unacknowledged(const Channel& channel, std::uint64_t message) noexcept {
  Transmit* transmit = numbers_.find(message);
  if (transmit == nullptr || transmit->channel != &channel || !transmit->awaits_peer) return nullptr;
  return transmit->request.operation <= Operation::kTagged ? transmit : nullptr;
}

bool Sender::announce_written(Channel& channel, Transmit& transmit, std::uint64_t message) noexcept {
  const bool may_send = channel.state == Channel::State::kOpen && channel.packets.empty() && !channel.side->registers;
  if (!may_send || !channel.credits.may_send() || transmit.outstanding != 1) return false;
  PacketHeader& header = transmit.packet.header;
  header = Packets::header(channel, PacketType::kWriteDone, message);
  if (fi_send(channel.ep, &header, sizeof header, nullptr, FI_ADDR_UNSPEC, &transmit.space) != 0) return false;
  --channel.credits.left;
  count_started(channel, transmit);
  return true;
}

void Sender::on_acknowledged(Transmit& transmit) noexcept {
  transmit.awaits_peer = false;
  finish_if_done(transmit);
}

inline void Sender::report(const Transmit& transmit, std::string_view sentence) noexcept {
  const TransmitRequest& request = transmit.request;
  const uint64_t flags = completion_flags_of(request.operation);
  --outstanding_;
  if (transmit.error != 0)
    request.routes->transmit_failed(flags, request.context, transmit.error, transmit.error, sentence);
  else
    request.routes->transmitted(flags, request.context, !request.silent);
}

void Sender::finish(Transmit& transmit, std::string_view sentence) noexcept {
  const TransmitRequest& request = transmit.request;
  List<Transmit>::unlink(transmit);
  List<Transmit, FlightTag>::unlink(transmit);
  if (transmit.message != 0 || request.operation > Operation::kTagged) {  // others have no regions
    numbers_.release(transmit);
    for (Lower<fid_mr>& region : transmit.regions) region.reset();
  }
  if (request.operation >= Operation::kUpdate) release_atomic(transmit);
  if (transmit.kept != 0) [[unlikely]]
    transmit.peer->copies.release(transmit.kept);
  if (!transmit.reported) [[likely]]
    report(transmit, sentence);
  Channel* const channel = transmit.channel;
  Peer& peer = *transmit.peer;
  transmits_.give_back(&transmit);
  // A fenced operation may start; later, because callers still use the queue of operations.
  if (channel == nullptr || channel != peer.channel || !channel->flight.empty() || peer.waiting.empty()) return;
  if (channel->state == Channel::State::kOpen && peer.waiting.front().has_flag(FI_FENCE))
    services_.retry_later(*channel);
}

void Sender::fail_waiting(Peer& peer, int error, std::string_view sentence) noexcept {
  while (!peer.waiting.empty()) {
    Transmit& transmit = peer.waiting.pop_front();
    if (transmit.error == 0) transmit.error = error;
    if (transmit.outstanding == 0) finish(transmit, transmit.channel == nullptr ? sentence : std::string_view());
  }
}

void Sender::cancel_waiting(Peer& peer, const CompletionRoutes& routes) noexcept {
  peer.waiting.for_each([&](Transmit& each) {
    if (each.request.routes != &routes || each.channel != nullptr) return;
    each.error = FI_ECANCELED;
    finish(each);
  });
}

bool Sender::carries(Channel& channel, const CompletionRoutes& routes) noexcept {
  for (Transmit& each : channel.flight)
    if (each.request.routes == &routes) return true;
  return false;
}

void Sender::on_closed(Channel& channel, int error) noexcept {
  const auto fail = [&](Transmit& each) {
    if (each.error == 0) each.error = error;
    if (each.outstanding == 0) finish(each);
  };
  channel.flight.for_each(fail);
  channel.scarcity.kept.for_each(fail);
}

void Sender::cancel_unreturned(Channel& channel, CompletionRoutes& routes) noexcept {
  for (Transmit& each : channel.flight) {
    TransmitRequest& request = each.request;
    if (request.routes != &routes) continue;
    routes.transmit_failed(completion_flags_of(request.operation), request.context, FI_ECANCELED, FI_ECANCELED);
    request.routes = &services_.routes;
  }
}

void Sender::abandon_unreturned(Channel& channel) noexcept {
  channel.flight.splice_back(channel.scarcity.kept);
  while (!channel.flight.empty()) {
    Transmit& transmit = channel.flight.front();
    transmit.error = FI_ECANCELED;
    finish(transmit);
  }
}

}  // namespace weft::rxm
