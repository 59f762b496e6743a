// SPDX-License-Identifier: BSD-2-Clause
// Long messages: their receiver reads them out of the sender's memory, then tells it so; or it invites the sender to
// write, and hears when that is done. Who receives decides (FI_OFI_RXM_USE_RNDV_WRITE).
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "rxm/domain.h"
#include "rxm/endpoint.h"

namespace weft::rxm {
namespace {

// Cuts `left` bytes to pieces that lie in one place at either end. The ranges must be as long; `local` is at least.
void cut(RemoteCopy& copy, std::span<const iovec> local, const RendezvousHeader& remote, const DirectHeader& direct,
         const Lower<fid_mr>* regions, std::size_t left) noexcept {
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
      piece.place = direct.places[range] + skipped;
    }
    left -= len;
    offset += len;
    skipped += len;
    if (offset == local[place].iov_len) ++place, offset = 0;
    if (skipped == there.len) ++range, skipped = 0;
  }
}

}  // namespace

// The receiver.

// `notice` has been checked: its ranges are as long as the message.
void Endpoint::fetch(Channel& channel, std::uint64_t message, const Notice& notice, const rdm::Envelope& envelope,
                     const rdm::Delivery& delivery) noexcept {
  if (invites_writes_ && !notice.has_direct) return invite(channel, message, envelope, delivery);
  RemoteCopy* copy = copies_.take();
  if (copy == nullptr) {
    receives_.fail(delivery, envelope, FI_ENOMEM, FI_ENOMEM);
    return tell_done(channel, PacketType::kReadDone, message);
  }
  copy->channel = &channel;
  copy->delivery = delivery;
  copy->envelope = envelope;
  copy->message = message;
  channel.copies.push_back(*copy);
  if (Status status = plan_read(*copy, notice); !status.ok()) copy->error = status.error();
  copy->direct = notice.has_direct;
  go_on(*copy);
}

// Which piece of the sender's memory goes where in ours; what does not fit is not fetched.
Status Endpoint::plan_read(RemoteCopy& copy, const Notice& notice) noexcept {
  const std::span<const iovec> local = copy.delivery.iov();
  const std::size_t len = std::min(copy.envelope.len, copy.delivery.capacity());
  std::size_t before = 0;
  for (std::size_t i = 0; domain_.registers_locally() && before < len; before += local[i++].iov_len) {
    if (local[i].iov_len == 0) continue;
    auto region = domain_.register_memory(local[i].iov_base, local[i].iov_len, FI_READ);
    if (!region) return region.error();
    copy.regions[i] = std::move(*region);
  }
  cut(copy, local, notice.rendezvous, notice.direct, copy.regions, len);
  return {};
}

// Asks the sender to write.
void Endpoint::invite(Channel& channel, std::uint64_t message, const rdm::Envelope& envelope,
                      const rdm::Delivery& delivery) noexcept {
  WriteTarget* target = targets_.take();
  Packet* packet = target != nullptr ? make_packet(channel) : nullptr;
  RendezvousHeader where;
  Status status(-FI_ENOMEM);
  if (packet != nullptr) {
    target->delivery = delivery;
    target->envelope = envelope;
    target->message = message;
    status = open_target(*target, where);
  }
  if (!status.ok()) {
    if (packet != nullptr) release(*packet);
    if (target != nullptr) targets_.give_back(target);
    receives_.fail(delivery, envelope, status.error(), status.error());
    return tell_done(channel, PacketType::kReadDone, message);
  }
  channel.targets.push_back(*target);
  PacketHeader header;
  header.control.type = PacketType::kWriteTarget;
  header.control.connection = channel.remote_id;
  header.control.message = message;
  packet->len = sizeof header + sizeof where;
  std::memcpy(packet->buffer->bytes, &header, sizeof header);
  std::memcpy(packet->buffer->bytes + sizeof header, &where, sizeof where);
  post_packet(*packet);
}

// Where the message may be written: ranges as long as it is. A message that is longer than its receive goes to memory
// of our own first, because no sender has to understand that a part of it is not wanted. So does one for several places
// where writes are counted: a write to all of them would be one access, but one of each region.
Status Endpoint::open_target(WriteTarget& target, RendezvousHeader& where) noexcept {
  std::span<const iovec> local = target.delivery.iov();
  iovec all{};
  if (target.envelope.len > target.delivery.capacity() || (remote_writes_ != nullptr && local.size() > 1)) {
    target.all.reset(new (std::nothrow) std::byte[target.envelope.len]);
    if (target.all == nullptr) return Status(-FI_ENOMEM);
    all = {target.all.get(), target.envelope.len};
    local = {&all, 1};
  }
  std::size_t left = target.envelope.len;
  for (std::size_t i = 0; left > 0; ++i) {
    if (local[i].iov_len == 0) continue;
    auto region = register_message(local[i].iov_base, local[i].iov_len, FI_REMOTE_WRITE);
    if (!region) return region.error();
    const std::size_t len = std::min(local[i].iov_len, left);
    target.regions[where.count] = std::move(*region);
    where.ranges[where.count] = {domain_.remote_address(local[i].iov_base), len,
                                 fi_mr_key(target.regions[where.count].get())};
    ++where.count;
    left -= len;
  }
  return {};
}

void Endpoint::on_write_done(Channel& channel, const ControlHeader& header) noexcept {
  for (WriteTarget& target : channel.targets) {  // nearly always the first one
    if (target.message != header.message) continue;
    const std::size_t len = std::min(target.envelope.len, target.delivery.capacity());
    if (target.all != nullptr) rdm::scatter(target.delivery.iov(), 0, target.all.get(), len);
    receives_.complete(target.delivery, target.envelope);
    return release(target);
  }
  protocol_error(channel, "the end of a message that was not asked for");
}

void Endpoint::release(WriteTarget& target) noexcept {
  static_cast<ListHook<WriteTarget>&>(target).unlink();
  targets_.give_back(&target);
}

// The sender.

void Endpoint::on_write_target(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept {
  Channel& channel = *posted.channel;
  Transmit* transmit = awaiting(header.control.message);
  RendezvousHeader where;
  if (transmit == nullptr || transmit->channel != &channel || len < sizeof where)
    return protocol_error(channel, "an invitation to no message");
  std::memcpy(&where, posted.buffer->bytes + sizeof header, sizeof where);
  const auto room = total_of(where);
  if (!room || *room < transmit->len) return protocol_error(channel, "an invitation to less than the message");
  RemoteCopy* copy = copies_.take();
  if (copy == nullptr) return protocol_error(channel, "no memory to write a message");
  copy->channel = &channel;
  copy->transmit = transmit;
  copy->message = header.control.message;
  transmit->awaits_peer = false;
  ++transmit->outstanding;
  channel.copies.push_back(*copy);
  cut(*copy, {transmit->iov, transmit->iov_count}, where, {}, transmit->regions, transmit->len);
  go_on(*copy);
}

// Both.

// 0, or a negative error.
ssize_t Endpoint::move(RemoteCopy& copy, RemoteCopy::Piece& piece) noexcept {
  fid_ep* const ep = copy.channel->ep;
  if (copy.transmit == nullptr)
    return fi_read(ep, piece.local.iov_base, piece.local.iov_len, piece.desc, FI_ADDR_UNSPEC, piece.remote.addr,
                   piece.remote.key, &piece.space);
  const fi_rma_iov remote{piece.remote.addr, piece.remote.len, piece.remote.key};
  const fi_msg_rma message{&piece.local, &piece.desc, 1, FI_ADDR_UNSPEC, &remote, 1, &piece.space, 0};
  return fi_writemsg(ep, &message, copy.transmit->lower_flags | FI_COMPLETION);
}

void Endpoint::go_on(RemoteCopy& copy) noexcept {
  Channel& channel = *copy.channel;
  const bool pending = copy.error == 0 && copy.issued < copy.piece_count;
  if (pending && channel.state == Channel::State::kAccepting)
    return channel.stalled.push_back(copy);  // until it is open
  if (pending && copy.direct && read_directly(copy) && copy.issued < copy.piece_count) {
    channel.stalled.push_back(copy);  // behind what others wait for
    return stall(channel);
  }
  while (copy.error == 0 && copy.issued < copy.piece_count) {
    const ssize_t result = move(copy, copy.pieces[copy.issued]);
    if (result == -FI_EAGAIN) {
      channel.stalled.push_back(copy);
      return stall(channel);
    }
    if (result != 0) {
      copy.error = reason_of(result);
      break;
    }
    ++channel.works;
    ++copy.issued;
    ++copy.outstanding;
  }
  if (copy.outstanding == 0) copy.transmit == nullptr ? end_read(copy) : end_write(copy);
}

void Endpoint::piece_finished(RemoteCopy::Piece& piece, int error) noexcept {
  RemoteCopy& copy = *piece.copy;
  --copy.outstanding;
  if (error != 0 && copy.error == 0) copy.error = error;
  if (copy.outstanding == 0 && (copy.error != 0 || copy.issued == copy.piece_count)) go_on(copy);
}

// The sender hears of the end also when the receive failed, as for a short message; else it would wait for ever. It
// hears of it last: what cannot be told ends the channel, and with it all copies.
void Endpoint::end_read(RemoteCopy& copy) noexcept {
  Channel& channel = *copy.channel;
  const std::uint64_t message = copy.message;
  const bool direct = copy.direct;
  if (copy.error == 0)
    receives_.complete(copy.delivery, copy.envelope);
  else
    receives_.fail(copy.delivery, copy.envelope, copy.error, copy.error);
  release(copy);
  if (!direct || !post_read_done(channel, message)) tell_done(channel, PacketType::kReadDone, message);
}

// There is no way to say that it failed but to end the connection.
void Endpoint::end_write(RemoteCopy& copy) noexcept {
  Channel& channel = *copy.channel;
  Transmit& transmit = *copy.transmit;
  const std::uint64_t message = copy.message;
  const int error = copy.error;
  release(copy);
  if (error == 0) tell_done(channel, PacketType::kWriteDone, message);
  lower_finished(transmit, error);
  if (error != 0) protocol_error(channel, "a message cannot be written");
}

// Tells the peer that the message was read, or written.
void Endpoint::tell_done(Channel& channel, PacketType type, std::uint64_t message) noexcept {
  if (channel.state == Channel::State::kClosed) return;
  PacketHeader header;
  header.control.type = type;
  header.control.connection = channel.remote_id;
  header.control.message = message;
  if (channel.state == Channel::State::kOpen && channel.packets.empty() && sizeof header <= lower_inject_ &&
      fi_inject(channel.ep, &header, sizeof header, FI_ADDR_UNSPEC) == 0) {
    channel.count_sent();
    return;
  }
  Packet* packet = make_packet(channel);
  if (packet == nullptr) return protocol_error(channel, "no memory for an answer");
  std::memcpy(packet->buffer->bytes, &header, sizeof header);
  packet->len = sizeof header;
  post_packet(*packet);
}

void Endpoint::release(RemoteCopy& copy) noexcept {
  static_cast<ListHook<RemoteCopy>&>(copy).unlink();
  static_cast<ListHook<StalledTag>&>(copy).unlink();
  for (Lower<fid_mr>& region : copy.regions) region.reset();
  copies_.give_back(&copy);
}

}  // namespace weft::rxm
