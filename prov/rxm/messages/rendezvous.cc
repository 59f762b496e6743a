// SPDX-License-Identifier: BSD-2-Clause
// Rendezvous; see rendezvous.h.
#include "rxm/messages/rendezvous.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::rxm {

namespace {

// Cuts `left` bytes into pieces that are contiguous at both ends. The ranges must hold exactly `left` bytes, `local` at
// least as many.
void cut(RemoteCopy& copy, std::span<const iovec> local, const RendezvousHeader& remote, const Lower<fid_mr>* regions,
         std::size_t left) noexcept {
  std::size_t place = 0, offset = 0;   // in `local`
  std::size_t range = 0, skipped = 0;  // in `remote`
  while (left > 0) {
    const RemoteRange& there = remote.ranges[range];
    const std::size_t len = std::min({left, local[place].iov_len - offset, there.len - skipped});
    if (len != 0) {
      RemoteCopy::Piece& piece = copy.pieces[copy.piece_count++];
      piece.channel = copy.channel;
      piece.copy = &copy;
      piece.local = {static_cast<std::byte*>(local[place].iov_base) + offset, len};
      piece.desc = regions[place] != nullptr ? fi_mr_desc(regions[place].get()) : nullptr;
      piece.remote = {there.addr + skipped, len, there.key};
    }
    left -= len;
    offset += len;
    skipped += len;
    if (offset == local[place].iov_len) {
      ++place;
      offset = 0;
    }
    if (skipped == there.len) {
      ++range;
      skipped = 0;
    }
  }
}

}  // namespace

Rendezvous::Rendezvous(EndpointServices& services, Packets& packets, Sender& sender,
                       rdm::ReceiveSide& receives) noexcept
    : services_(services),
      packets_(packets),
      sender_(sender),
      receives_(receives),
      // A message that is longer than its receive would be copied there by the processor.
      invites_writes_(services.domain.fabric().parameters.rendezvous_write && services.devices == nullptr) {}

// nullptr when memory runs out.
RemoteCopy* Rendezvous::make_copy(Channel& channel, std::uint64_t message) noexcept {
  RemoteCopy* copy = copies_.take();
  if (copy == nullptr) return nullptr;
  copy->channel = &channel;
  copy->message = message;
  channel.copies.push_back(*copy);
  return copy;
}

// ---- The receiver ----

void Rendezvous::fetch(Channel& channel, std::uint64_t message, const RendezvousHeader& place,
                       const rdm::Envelope& envelope, const rdm::Delivery& delivery) noexcept {
  if (invites_writes_) return invite(channel, message, envelope, delivery);
  if (read_at_once(channel, place, envelope, delivery)) {
    receives_.complete(delivery, envelope);
    return packets_.post_control(channel, PacketType::kReadDone, message);
  }
  RemoteCopy* copy = make_copy(channel, message);
  if (copy == nullptr) {
    receives_.fail(delivery, envelope, FI_ENOMEM, FI_ENOMEM);
    return packets_.post_control(channel, PacketType::kReadDone, message);
  }
  copy->delivery = delivery;
  copy->envelope = envelope;
  if (Status status = plan_read(*copy, place); !status.ok()) copy->error = status.error();
  advance(*copy);
}

// Reads the message from the sender's process. False: the lower provider must read it.
bool Rendezvous::read_at_once(const Channel& channel, const RendezvousHeader& place, const rdm::Envelope& envelope,
                              const rdm::Delivery& delivery) noexcept {
  if (channel.memory == nullptr || place.is_readable != 1 || place.count == kMaxRanges) return false;
  const std::span<const iovec> to = delivery.iov();
  return channel.memory->read(channel.ep, to.data(), to.size(), place.ranges[kMaxRanges - 1].addr,
                              std::min(envelope.len, delivery.capacity())) == 0;
}

// Maps the sender's ranges to the receive buffers; bytes beyond the receive are not fetched.
Status Rendezvous::plan_read(RemoteCopy& copy, const RendezvousHeader& place) noexcept {
  const std::span<const iovec> local = copy.delivery.iov();
  const std::size_t len = std::min(copy.envelope.len, copy.delivery.capacity());
  LowerSide& side = *copy.channel->side;
  std::size_t before = 0;
  for (std::size_t i = 0; side.registers && before < len; before += local[i++].iov_len) {
    if (local[i].iov_len == 0) continue;
    auto region = services_.domain.register_memory(side, local[i].iov_base, local[i].iov_len, FI_READ);
    if (!region) return region.error();
    copy.regions[i] = std::move(*region);
  }
  cut(copy, local, place, copy.regions, len);
  return {};
}

// Sends the invitation to write.
void Rendezvous::invite(Channel& channel, std::uint64_t message, const rdm::Envelope& envelope,
                        const rdm::Delivery& delivery) noexcept {
  WriteTarget* target = targets_.take();
  Packet* packet = target != nullptr ? packets_.make(channel) : nullptr;
  RendezvousHeader where;
  Status status(-FI_ENOMEM);
  if (packet != nullptr) {
    target->delivery = delivery;
    target->envelope = envelope;
    target->message = message;
    status = open_target(*channel.side, *target, where);
  }
  if (!status.ok()) {
    if (packet != nullptr) packets_.release(*packet);
    if (target != nullptr) targets_.give_back(target);
    receives_.fail(delivery, envelope, status.error(), status.error());
    return packets_.post_control(channel, PacketType::kReadDone, message);
  }
  channel.targets.push_back(*target);
  const PacketHeader header = Packets::header(channel, PacketType::kWriteTarget, message);
  packet->len = sizeof header + sizeof where;
  std::memcpy(packet->buffer->bytes, &header, sizeof header);
  std::memcpy(packet->buffer->bytes + sizeof header, &where, sizeof where);
  packets_.post(*packet);
}

// Registers ranges as long as the message. A message that is longer than its receive is written to memory of our own
// first, because the protocol has no way to refuse a part of it. So is a message for several buffers if writes are
// counted: a write to all of them is one access, but each region would count one.
Status Rendezvous::open_target(LowerSide& side, WriteTarget& target, RendezvousHeader& where) noexcept {
  std::span<const iovec> local = target.delivery.iov();
  iovec all{};
  if (target.envelope.len > target.delivery.capacity() || (services_.remote_writes != nullptr && local.size() > 1)) {
    target.all.reset(new (std::nothrow) std::byte[target.envelope.len]);
    if (target.all == nullptr) return Status(-FI_ENOMEM);
    all = {target.all.get(), target.envelope.len};
    local = {&all, 1};
  }
  std::size_t left = target.envelope.len;
  for (std::size_t i = 0; left > 0; ++i) {
    if (local[i].iov_len == 0) continue;
    auto region = services_.register_message(side, local[i].iov_base, local[i].iov_len, FI_REMOTE_WRITE);
    if (!region) return region.error();
    const std::size_t len = std::min(local[i].iov_len, left);
    target.regions[where.count] = std::move(*region);
    where.ranges[where.count] = {side.remote_address(local[i].iov_base), len,
                                 fi_mr_key(target.regions[where.count].get())};
    ++where.count;
    left -= len;
  }
  return {};
}

void Rendezvous::on_write_done(Channel& channel, const ControlHeader& header) noexcept {
  for (WriteTarget& target : channel.targets) {  // nearly always the first one
    if (target.message != header.message) continue;
    if (target.all != nullptr) target.delivery.write({target.all.get(), target.envelope.len});
    receives_.complete(target.delivery, target.envelope);
    return release(target);
  }
  services_.links->protocol_error(channel, "end of a message that was not invited");
}

void Rendezvous::release(WriteTarget& target) noexcept {
  target.unlink();
  targets_.give_back(&target);
}

// ---- The sender ----

void Rendezvous::on_write_target(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  Transmit* transmit = sender_.find_unacknowledged(channel, header.control.message);
  RendezvousHeader where;
  if (transmit == nullptr || transmit->packet.header.control.type != PacketType::kRendezvous || len < sizeof where)
    return services_.links->protocol_error(channel, "invitation to write an unknown message");
  std::memcpy(&where, posted.buffer->bytes + sizeof header, sizeof where);
  const auto room = total_of(where);
  if (!room || *room < transmit->len)
    return services_.links->protocol_error(channel, "invitation that is shorter than the message");
  RemoteCopy* copy = make_copy(channel, header.control.message);
  if (copy == nullptr) return services_.links->protocol_error(channel, "no memory to write a message");
  copy->transmit = transmit;
  transmit->awaits_peer = false;
  ++transmit->outstanding;
  cut(*copy, transmit->buffers(), where, transmit->regions, transmit->len);
  advance(*copy);
}

// ---- Both ----

// 0, or a negative error.
ssize_t Rendezvous::start(RemoteCopy& copy, RemoteCopy::Piece& piece) noexcept {
  fid_ep* const ep = copy.channel->ep;
  if (copy.transmit == nullptr)
    return fi_read(ep, piece.local.iov_base, piece.local.iov_len, piece.desc, FI_ADDR_UNSPEC, piece.remote.addr,
                   piece.remote.key, &piece.space);
  const fi_msg_rma message{&piece.local, &piece.desc, 1, FI_ADDR_UNSPEC, &piece.remote, 1, &piece.space, 0};
  return fi_writemsg(ep, &message, (copy.transmit->request.flags & copy.channel->side->levels) | FI_COMPLETION);
}

void Rendezvous::advance(RemoteCopy& copy) noexcept {
  Channel& channel = *copy.channel;
  const bool pending = copy.error == 0 && copy.issued < copy.piece_count;
  if (pending && channel.state == Channel::State::kAccepting)
    return channel.waiting_copies.push_back(copy);  // until it is open
  while (copy.error == 0 && copy.issued < copy.piece_count) {
    const ssize_t result = start(copy, copy.pieces[copy.issued]);
    if (result == -FI_EAGAIN) {
      channel.waiting_copies.push_back(copy);
      return services_.retry_later(channel);
    }
    if (result != 0) {
      copy.error = reason_of(result);
      break;
    }
    ++channel.works.sends;
    ++copy.issued;
    ++copy.outstanding;
  }
  if (copy.outstanding == 0) return copy.transmit == nullptr ? end_read(copy) : end_write(copy);
}

void Rendezvous::on_piece_completion(RemoteCopy::Piece& piece, int error) noexcept {
  RemoteCopy& copy = *piece.copy;
  --copy.outstanding;
  if (error != 0 && copy.error == 0) copy.error = error;
  if (copy.outstanding == 0 && (copy.error != 0 || copy.issued == copy.piece_count)) advance(copy);
}

// The sender receives an acknowledgement also when the receive failed, as for a short message; else it would wait for
// ever. It is sent last: a failure to send it closes the channel, and with it all copies.
void Rendezvous::end_read(RemoteCopy& copy) noexcept {
  Channel& channel = *copy.channel;
  const std::uint64_t message = copy.message;
  if (copy.error == 0)
    receives_.complete(copy.delivery, copy.envelope);
  else
    receives_.fail(copy.delivery, copy.envelope, copy.error, copy.error);
  release(copy);
  packets_.post_control(channel, PacketType::kReadDone, message);
}

// The protocol reports a failed write only by closing the connection.
void Rendezvous::end_write(RemoteCopy& copy) noexcept {
  Channel& channel = *copy.channel;
  Transmit& transmit = *copy.transmit;
  const std::uint64_t message = copy.message;
  const int error = copy.error;
  release(copy);
  if (error == 0 && !sender_.announce_written(channel, transmit, message))
    packets_.post_control(channel, PacketType::kWriteDone, message);
  sender_.on_lower_completion(transmit, error);
  if (error != 0) services_.links->protocol_error(channel, "message cannot be written");
}

void Rendezvous::retry(Channel& channel) noexcept {
  while (!channel.waiting_copies.empty() && !services_.retries.linked(channel))
    advance(channel.waiting_copies.pop_front());
}

void Rendezvous::on_closed(Channel& channel, int error) noexcept {
  channel.copies.for_each([&](RemoteCopy& each) {
    if (each.error == 0) each.error = error;
    if (each.outstanding == 0) advance(each);
  });
  while (!channel.targets.empty()) {
    WriteTarget& each = channel.targets.front();
    receives_.fail(each.delivery, each.envelope, error, error);
    release(each);
  }
}

void Rendezvous::abandon_unreturned(Channel& channel) noexcept {
  while (!channel.copies.empty()) {
    RemoteCopy& left = channel.copies.front();
    if (left.transmit == nullptr) receives_.fail(left.delivery, left.envelope, FI_ECANCELED, FI_ECANCELED);
    release(left);
  }
}

void Rendezvous::release(RemoteCopy& copy) noexcept {
  List<RemoteCopy>::unlink(copy);
  List<RemoteCopy, RetryTag>::unlink(copy);
  for (Lower<fid_mr>& region : copy.regions) region.reset();
  copies_.give_back(&copy);
}

}  // namespace weft::rxm
