// SPDX-License-Identifier: BSD-2-Clause
// Long messages: their receiver reads them out of the sender's memory, then tells it so.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "rxm/domain.h"
#include "rxm/endpoint.h"

namespace weft::rxm {

// `notice` has been checked: its ranges are as long as the message.
void Endpoint::fetch(Channel& channel, std::uint64_t message, const Notice& notice, const rdm::Envelope& envelope,
                     const rdm::Delivery& delivery) noexcept {
  Fetch* fetch = fetches_.take();
  if (fetch == nullptr) {
    receives_.fail(delivery, envelope, FI_ENOMEM, FI_ENOMEM);
    return tell_read_done(channel, message);
  }
  fetch->channel = &channel;
  fetch->delivery = delivery;
  fetch->envelope = envelope;
  fetch->message = message;
  channel.fetches.push_back(*fetch);
  if (Status status = plan(*fetch, notice); !status.ok()) fetch->error = status.error();
  fetch->direct = notice.has_direct;
  go_on(*fetch);
}

// Which piece of the sender's memory goes where in ours; what does not fit is not fetched.
Status Endpoint::plan(Fetch& fetch, const Notice& notice) noexcept {
  const std::span<const iovec> local = fetch.delivery.iov();
  std::size_t left = std::min(fetch.envelope.len, fetch.delivery.capacity());
  std::size_t place = 0, offset = 0;  // in `local`
  std::size_t range = 0, skipped = 0;
  while (left > 0) {
    if (offset == local[place].iov_len) {
      ++place;
      offset = 0;
      continue;
    }
    const RemoteRange& remote = notice.rendezvous.ranges[range];
    if (skipped == remote.len) {
      ++range;
      skipped = 0;
      continue;
    }
    if (domain_.registers_locally() && fetch.regions[place] == nullptr) {
      auto region = domain_.register_memory(local[place].iov_base, local[place].iov_len, FI_READ);
      if (!region) return region.error();
      fetch.regions[place] = std::move(*region);
    }
    const std::size_t len = std::min({left, local[place].iov_len - offset, remote.len - skipped});
    Fetch::Piece& piece = fetch.pieces[fetch.piece_count++];
    piece.channel = fetch.channel;
    piece.fetch = &fetch;
    piece.local = {static_cast<std::byte*>(local[place].iov_base) + offset, len};
    piece.desc = fetch.regions[place] != nullptr ? fi_mr_desc(fetch.regions[place].get()) : nullptr;
    piece.remote = {remote.addr + skipped, len, remote.key};
    piece.place = notice.direct.places[range] + skipped;
    offset += len;
    skipped += len;
    left -= len;
  }
  return {};
}

void Endpoint::go_on(Fetch& fetch) noexcept {
  Channel& channel = *fetch.channel;
  const bool pending = fetch.error == 0 && fetch.issued < fetch.piece_count;
  if (pending && channel.state == Channel::State::kAccepting)
    return channel.stalled.push_back(fetch);  // until it is open
  if (pending && fetch.direct && read_directly(fetch) && fetch.issued < fetch.piece_count) {
    channel.stalled.push_back(fetch);  // behind what others wait for
    return stall(channel);
  }
  while (fetch.error == 0 && fetch.issued < fetch.piece_count) {
    Fetch::Piece& piece = fetch.pieces[fetch.issued];
    const ssize_t result = fi_read(channel.ep, piece.local.iov_base, piece.local.iov_len, piece.desc, FI_ADDR_UNSPEC,
                                   piece.remote.addr, piece.remote.key, &piece.space);
    if (result == -FI_EAGAIN) {
      channel.stalled.push_back(fetch);
      return stall(channel);
    }
    if (result != 0) {
      fetch.error = static_cast<int>(-result);
      break;
    }
    ++channel.works;
    ++fetch.issued;
    ++fetch.outstanding;
  }
  if (fetch.outstanding != 0) return;
  // The sender hears of the end also when the receive failed, as for a short message; else it would wait for ever. It
  // hears of it last: what cannot be told ends the channel, and with it all fetches.
  const std::uint64_t message = fetch.message;
  const bool direct = fetch.direct;
  if (fetch.error == 0)
    receives_.complete(fetch.delivery, fetch.envelope);
  else
    receives_.fail(fetch.delivery, fetch.envelope, fetch.error, fetch.error);
  release(fetch);
  if (!direct || !post_read_done(channel, message)) tell_read_done(channel, message);
}

void Endpoint::piece_finished(Fetch::Piece& piece, int error) noexcept {
  Fetch& fetch = *piece.fetch;
  --fetch.outstanding;
  if (error != 0 && fetch.error == 0) fetch.error = error;
  if (fetch.outstanding == 0 && (fetch.error != 0 || fetch.issued == fetch.piece_count)) go_on(fetch);
}

void Endpoint::tell_read_done(Channel& channel, std::uint64_t message) noexcept {
  if (channel.state == Channel::State::kClosed) return;
  PacketHeader header;
  header.control.type = PacketType::kReadDone;
  header.control.connection = channel.remote_id;
  header.control.message = message;
  if (channel.state == Channel::State::kOpen && channel.packets.empty() && sizeof header <= lower_inject_ &&
      fi_inject(channel.ep, &header, sizeof header, FI_ADDR_UNSPEC) == 0)
    return;
  Packet* packet = make_packet(channel);
  if (packet == nullptr) return protocol_error(channel, "no memory for an answer");
  std::memcpy(packet->buffer->bytes, &header, sizeof header);
  packet->len = sizeof header;
  post_packet(*packet);
}

void Endpoint::release(Fetch& fetch) noexcept {
  static_cast<ListHook<Fetch>&>(fetch).unlink();
  static_cast<ListHook<StalledTag>&>(fetch).unlink();
  for (Lower<fid_mr>& region : fetch.regions) region.reset();
  fetches_.give_back(&fetch);
}

}  // namespace weft::rxm
