// SPDX-License-Identifier: BSD-2-Clause
// Idle connections are closed, and opened again by the next operation; rdm/idle_close.h.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "rxm/logging.h"
#include "rxm/peers/peer_links.h"

namespace weft::rxm {
namespace {

using rdm::IdleClose, rdm::IdleCloseMessage;

// Neither end has an operation, packet or response under way.
bool is_quiet(Channel& channel) noexcept {
  const Peer& peer = *channel.peer;
  return channel.state == Channel::State::kOpen && peer.channel == &channel && peer.loopback == nullptr &&
         peer.waiting.empty() && channel.atomics == 0 && channel.packets.empty() && channel.waiting_copies.empty() &&
         channel.copies.empty() && channel.targets.empty() && channel.assemblies.empty() && channel.flight.empty() &&
         channel.unexpected.empty();
}

void send(Packets& packets, Channel& channel, IdleCloseMessage message) noexcept {
  packets.post_control(channel, PacketType::kIdleClose, static_cast<std::uint64_t>(message));
}

}  // namespace

// Runs at every half of the idle time-out.
void PeerLinks::check_idle() noexcept {
  if (!idle_check_.infinite() && !idle_check_.expired()) return;
  const auto now = Clock::now();
  idle_check_ = Deadline(now + std::max<Clock::duration>(idle_timeout_ / 2, std::chrono::milliseconds(1)));
  services_.channels.for_each([&](Channel& channel) {
    if (channel.idle_close.should_request(channel.activity, is_quiet(channel), now))
      send(packets_, channel, IdleCloseMessage::kRequest);
  });
}

void PeerLinks::on_idle_close(Channel& channel, std::uint64_t message) noexcept {
  const auto received = static_cast<IdleCloseMessage>(std::min<std::uint64_t>(message, UINT8_MAX));
  switch (channel.idle_close.on_message(received, channel.activity, is_quiet(channel), Clock::now())) {
    case IdleClose::Action::kSendAgree:
      return send(packets_, channel, IdleCloseMessage::kAgree);
    case IdleClose::Action::kSendDecline:
      return send(packets_, channel, IdleCloseMessage::kDecline);
    case IdleClose::Action::kClose:
      FI_INFO(&provider(), FI_LOG_EP_CTRL, "idle connection closed: %s\n", channel.peer->address.to_string().c_str());
      return end_channel(channel, rdm::LinkEvent::kEnded, FI_ECANCELED);
    case IdleClose::Action::kResume:
      return sender_.flush(*channel.peer);
    case IdleClose::Action::kProtocolError:
      return protocol_error(channel, "idle-close message out of order");
    case IdleClose::Action::kNone:
      return;
  }
}

}  // namespace weft::rxm
