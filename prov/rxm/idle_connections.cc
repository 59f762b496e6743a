// SPDX-License-Identifier: BSD-2-Clause
// Connections that are closed because nothing moves on them, and opened again when somebody sends; rdm/farewell.h.
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>

#include "rxm/domain.h"
#include "rxm/endpoint.h"
#include "rxm/provider.h"

namespace weft::rxm {
namespace {

// Nothing is on its way, in either direction, and nothing is owed.
bool is_quiet(Channel& channel) noexcept {
  const Peer& peer = *channel.peer;
  return channel.state == Channel::State::kOpen && peer.channel == &channel && peer.twin == nullptr &&
         peer.waiting.empty() && channel.atomics == 0 && channel.packets.empty() && channel.stalled.empty() &&
         channel.copies.empty() && channel.targets.empty() && channel.assemblies.empty() && channel.flight.empty() &&
         channel.unexpected.empty();
}

}  // namespace

// Whether the other end closes idle connections as we do. What it said when connecting has that behind the offer of
// direct reads, or in its place.
bool Endpoint::offers_to_close(const void* data, std::size_t len, std::size_t behind) const noexcept {
  if (idle_timeout_ == Clock::duration::zero()) return false;
  for (const std::size_t at : {behind, behind + sizeof(DirectOffer)}) {
    std::uint64_t magic = 0;
    if (len < at + sizeof magic) return false;
    std::memcpy(&magic, static_cast<const std::byte*>(data) + at, sizeof magic);
    if (magic == kIdleMagic) return true;
  }
  return false;
}

// Adds it to the `len` bytes that are there; returns how many there are then.
std::size_t Endpoint::offer_to_close(std::byte* bytes, std::size_t len) const noexcept {
  if (idle_timeout_ == Clock::duration::zero()) return len;
  std::memcpy(bytes + len, &kIdleMagic, sizeof kIdleMagic);
  return len + sizeof kIdleMagic;
}

// At every half of the time that a connection may be idle for.
void Endpoint::check_idle() noexcept {
  if (!idle_check_.infinite() && !idle_check_.expired()) return;
  const auto now = Clock::now();
  idle_check_ = Deadline(now + std::max<Clock::duration>(idle_timeout_ / 2, std::chrono::milliseconds(1)));
  for (auto it = channels_.begin(); it != channels_.end();) {
    Channel& channel = *it;
    ++it;
    if (channel.farewell.asks(channel.activity, is_quiet(channel), now))
      tell_done(channel, PacketType::kFarewell, static_cast<std::uint64_t>(rdm::FarewellWord::kAsk));
  }
}

void Endpoint::hear_farewell(Channel& channel, std::uint64_t word) noexcept {
  using rdm::Farewell, rdm::FarewellWord;
  const auto said = static_cast<FarewellWord>(std::min<std::uint64_t>(word, UINT8_MAX));
  Peer& peer = *channel.peer;
  switch (channel.farewell.hear(said, channel.activity, is_quiet(channel), Clock::now())) {
    case Farewell::Then::kSayAgree:
      return tell_done(channel, PacketType::kFarewell, static_cast<std::uint64_t>(FarewellWord::kAgree));
    case Farewell::Then::kSayDecline:
      return tell_done(channel, PacketType::kFarewell, static_cast<std::uint64_t>(FarewellWord::kDecline));
    case Farewell::Then::kClose:
      FI_INFO(&provider(), FI_LOG_EP_CTRL, "the connection with %s is idle and ends\n",
              peer.address.to_string().c_str());
      return end_channel(channel, FI_ECANCELED);
    case Farewell::Then::kGoOn:
      return flush(peer);
    case Farewell::Then::kNonsense:
      return protocol_error(channel, "a farewell that nobody asked for");
    case Farewell::Then::kNothing:
      return;
  }
}

}  // namespace weft::rxm
