// SPDX-License-Identifier: BSD-2-Clause
// Peers of reliable datagrams and the connections to them: opened by the first operation to a peer, or accepted when
// the peer connects first; fi_cm(3). rdm/peer_link.h decides about requests that cross, restarted peers and the ends of
// connections. A rejection has no reason, so a rejected request is repeated for a while. A rejection whose data are no
// greeting comes from another provider, and its request is not repeated.
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <new>
#include <utility>

#include "objects/sentence.h"
#include "tcp/logging.h"
#include "tcp/names.h"
#include "tcp/reliable/endpoint.h"
#include "tcp/socket.h"

namespace weft::tcp {

using rdm::LinkEvent, rdm::LinkState;
using namespace std::chrono_literals;

Channel* ReliableEndpoint::make_channel(Peer& peer) noexcept {
  reap();
  auto* channel = new (std::nothrow) Channel(*this, peer);
  if (channel == nullptr) return nullptr;
  peer.endpoint = this;
  peer.enter(domain_.parts().pools.unexpected);
  peer.copies.enter(domain_.parts().pools.copies);
  channels_.push_back(*channel);
  return channel;
}

// Channels that exist already follow a context that is bound late.
void ReliableEndpoint::set_tx_size(std::size_t size) noexcept {
  EndpointBase::set_tx_size(size);
  for (Channel& channel : channels_) channel.stream().set_queue_size(size);
}

// Takes the channel out of service. The next round deletes it.
void ReliableEndpoint::detach(Channel& channel) noexcept {
  channel.peer().detach(channel);
  List<Channel>::unlink(channel);
  dying_.push_back(channel);
  engine().set_deadline(channels_timer_, net::now());
}

// ---- Own requests ----

LinkState ReliableEndpoint::link_of(const Peer& peer) noexcept {
  if (peer.link < LinkState::kOpen) return peer.link;
  const LinkState state = rdm::open_link(peer.channel->idle_close());
  // The stream may have ended just now; operations wait until its channel reports that.
  return state == LinkState::kOpen && !peer.channel->open() ? LinkState::kClosing : state;
}

// Executes what rdm/peer_link.h decides. `error`, `sentence`: of operations that this step fails. Reconnects by timer,
// because a handler of the old connection may be running.
void ReliableEndpoint::step(Peer& peer, LinkEvent event, int error, std::string_view sentence) noexcept {
  const auto retry_at = peer.contact.retry_at(event, net::now(), timeouts(), peer.deadline);
  const rdm::LinkStep step = rdm::next(link_of(peer), event, {.repeated = retry_at.has_value()});
  if ((step.actions & rdm::kLinkClose) != 0 && peer.channel != nullptr) close_channel(*peer.channel, error);
  peer.link = step.state;
  if ((step.actions & rdm::kLinkRetryLater) != 0)
    engine().set_deadline(peer.timer, std::min(*retry_at, peer.deadline.time()));
  if (!sentence.empty())
    FI_LOG(&provider(), step.state == LinkState::kRejected ? FI_LOG_INFO : FI_LOG_WARN, FI_LOG_EP_CTRL, "%.*s\n",
           static_cast<int>(sentence.size()), sentence.data());
  if ((step.actions & rdm::kLinkFlush) != 0) flush(peer);
  if ((step.actions & rdm::kLinkFail) != 0) fail_waiting(peer, error, sentence);
  if ((step.actions & rdm::kLinkReconnect) == 0) return;
  if (peer.waiting.empty())
    stop_timers(peer);
  else if (event == LinkEvent::kRetry)
    connect_or_fail(peer);
  else
    engine().set_deadline(peer.timer, net::now());
}

// Sends a request unless there is a connection, or one is being made; the outcome is reported later. The caller reports
// an immediate failure.
Status ReliableEndpoint::connect(Peer& peer) noexcept {
  const rdm::LinkStep step = rdm::next(link_of(peer), LinkEvent::kOperation);
  if ((step.actions & rdm::kLinkConnect) == 0) return {};
  peer.use_inserted_address();
  if (peer.waiting.empty() || peer.deadline.infinite()) peer.deadline = Deadline::after(net::now(), timeouts().connect);
  auto socket = open_towards(peer.address, own_, domain_.parts().spare_socket);
  if (!socket) return socket.error();
  Channel* channel = make_channel(peer);
  if (channel == nullptr) return Status(-FI_ENOMEM);
  if (Status status = channel->connect(own_, std::move(*socket)); !status.ok()) {
    close_channel(*channel, status.error());
    return status;
  }
  peer.channel = channel;
  peer.link = step.state;
  return {};
}

void ReliableEndpoint::on_unreachable(Channel& channel, int error, const char* why) noexcept {
  const int reported = error == EPIPE ? FI_ECONNRESET : error;
  step(channel.peer(), error == FI_ECONNREFUSED ? LinkEvent::kRefused : LinkEvent::kFailed, reported,
       channel.failure(reported, why));
}

void ReliableEndpoint::on_refused(Channel& channel) noexcept {
  Peer& peer = channel.peer();
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "request rejected by %s: its own request crossed ours, or it is not ready\n",
          peer.address.to_string().c_str());
  peer.deadline.postpone(channel.time_of_request());  // the peer took that time
  step(peer, LinkEvent::kRejected, FI_ECONNREFUSED);
}

void ReliableEndpoint::on_peer_timer(Peer& peer) noexcept {
  const bool waits = peer.link == LinkState::kRejected && !peer.waiting.empty();
  if (const auto now = net::now(); waits && now >= peer.deadline.time()) {
    const std::string sentence =
        connect_failure(FI_ECONNREFUSED, "the peer rejected every request", "waiting for the peer's request", own_,
                        peer.address, now - peer.deadline.time() + timeouts().connect);
    return step(peer, LinkEvent::kDeadline, FI_ECONNREFUSED, sentence);
  }
  step(peer, LinkEvent::kRetry);
}

void ReliableEndpoint::connect_or_fail(Peer& peer) noexcept {
  const Status status = connect(peer);
  if (status.ok()) return;
  fail_waiting(peer, status.error(),
               connect_failure(status.error(), nullptr, "opening a connection", own_, peer.address, 0ms));
}

// `error` is positive.
void ReliableEndpoint::fail_waiting(Peer& peer, int error, std::string_view sentence) noexcept {
  stop_timers(peer);
  while (!peer.waiting.empty()) {
    WaitingTransmit& waiting = peer.waiting.pop_front();
    --peer.waiting_count;
    fail(waiting, error, sentence);
  }
}

// Fails a transfer that was waiting. `error` is positive.
void ReliableEndpoint::fail(WaitingTransmit& waiting, int error, std::string_view sentence) noexcept {
  const TransmitRequest& request = waiting.request;
  routes_of(request).transmit_failed(completion_flags_of(request.operation), request.context, error, error, sentence);
  waiting_.give_back(&waiting);
}

// A context closes: its operations' memory is about to be freed, so connections that carry such operations are closed.
void ReliableEndpoint::abandon(CompletionRoutes& routes, const rdm::ReceiveSide& context) noexcept {
  peers_.for_each([&](Peer& peer) {
    peer.waiting.for_each([&](WaitingTransmit& each) {
      if (each.request.routes != &routes) return;
      each.unlink();
      --peer.waiting_count;
      fail(each, FI_ECANCELED);
    });
  });
  channels_.for_each([&](Channel& channel) {
    channel.discard_for(context);
    if (channel.stream().carries(routes)) close_channel(channel, FI_ECANCELED);
  });
}

// The peer is connected: sends the waiting transfers, in order. The stream's queue is as long as the list may be.
void ReliableEndpoint::flush(Peer& peer) noexcept {
  stop_timers(peer);
  peer.contact.reached();
  while (!peer.waiting.empty() && peer.channel != nullptr) {
    WaitingTransmit& waiting = peer.waiting.pop_front();
    --peer.waiting_count;
    const ssize_t result = send_on(*peer.channel, waiting.request, true);
    if (result != 0)
      fail(waiting, result == -FI_EAGAIN ? FI_ENOMEM : static_cast<int>(-result));
    else
      waiting_.give_back(&waiting);
  }
  if (!peer.waiting.empty()) fail_waiting(peer, FI_ECONNRESET);
}

void ReliableEndpoint::on_channel_end(Channel& channel, int error) noexcept {
  Peer& peer = channel.peer();
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "connection with %s closed: %s\n", peer.address.to_string().c_str(),
          error == 0 ? "by the peer" : fi_strerror(error));
  peer.channel == &channel ? step(peer, LinkEvent::kEnded) : detach(channel);
}

// ---- Idle connections ----

// Deletes channels that were detached, and closes idle ones. Runs after a channel was detached, and every half of the
// idle time-out.
void ReliableEndpoint::check_channels() noexcept {
  reap();
  if (idle_timeout_ == Clock::duration::zero()) return;
  const auto now = net::now();
  channels_.for_each([&](Channel& channel) { channel.check_idle(now); });
  engine().set_deadline(channels_timer_, now + std::max<Clock::duration>(idle_timeout_ / 2, 1ms));
}

// Both ends have agreed to close.
void ReliableEndpoint::on_idle(Channel& channel) noexcept {
  Peer& peer = channel.peer();
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "connection with %s closed: idle\n", peer.address.to_string().c_str());
  step(peer, LinkEvent::kEnded, FI_ECANCELED);
}

// ---- Peers' requests ----

void PeerListener::on_request(ConnectRequest& request) noexcept {
  leave_half_open(request);
  endpoint_.on_request(request);
  delete &request;  // rejects it unless it was accepted
}

void ReliableEndpoint::on_request(ConnectRequest& request) noexcept {
  Greeting greeting;
  if (!greeting.read(request.message().data())) {
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "request from %s rejected: not one for reliable datagrams\n",
            request.peer().to_string().c_str());
    return;
  }
  Address from = request.peer(), own = own_;
  from.set_port(ntohs(greeting.port));
  if (own.is_any()) {
    own = tcp::name_of(request.socket(), own);
    own.set_port(own_.port());
  }
  const std::uint32_t process = ntohl(greeting.process);
  Peer* peer = peers_.requester(*vector_, from, greeting.version >= 1 && (greeting.features & kEverywhere) != 0,
                                [&](const Peer& same) { return same.may_have_requested(process); });
  if (peer == nullptr) return;
  const bool restarted = peer->process != 0 && peer->process != process && !request.ended();
  const rdm::LinkStep step = peer->on_request(link_of(*peer), own, restarted, provider());
  if ((step.actions & rdm::kLinkReject) != 0) return;
  if ((step.actions & rdm::kLinkClose) != 0) close_channel(*peer->channel, step.error);
  peer->link = step.state;
  accept(*peer, request, greeting, (step.actions & rdm::kLinkAcceptBeside) != 0);
}

void ReliableEndpoint::accept(Peer& peer, ConnectRequest& request, const Greeting& greeting, bool beside) noexcept {
  Channel* channel = make_channel(peer);
  if (channel == nullptr) return beside ? void() : step(peer, LinkEvent::kAbandoned);
  // Before the acceptance: a rejected request is repeated, but what the peer sends to a connection that ends is lost.
  if (Status status = engine().watch_hot(request, request.socket()); !status.ok()) {
    close_channel(*channel, status.error());
    return beside ? void() : step(peer, LinkEvent::kAbandoned);
  }
  const std::uint8_t version = Greeting::common(greeting.version);
  Greeting answer = Greeting::of(own_.port(), process_);
  answer.version = version == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(version | kAnsweredVersion);
  const auto theirs = static_cast<std::uint8_t>(greeting.features & ~(beside ? kCloses : 0));
  const Agreement agreement = channel->agree_on(version, theirs, request.message().swapped());
  if (version >= 1) answer.features = static_cast<std::uint8_t>(agreement.features << 1);
  CmMessage message;
  message.compose(CmType::kAccept, &answer, sizeof answer);
  const auto bytes = message.unsent();
  UniqueFd socket = request.answer();
  // The socket's buffer is empty: the kernel takes the whole message, or the connection is broken anyway.
  const ssize_t sent = net::send(socket.get(), bytes.data(), bytes.size());
  if (sent != static_cast<ssize_t>(bytes.size())) {
    engine().unwatch(request);
    close_channel(*channel, FI_ECONNRESET);
    return beside ? void() : step(peer, LinkEvent::kAbandoned);
  }
  (beside ? peer.beside : peer.channel) = channel;
  if (!beside) peer.process = ntohl(greeting.process);
  channel->agree(request.message(), false);
  channel->start(std::move(socket), request.message().swapped(), agreement, &request);
  channel->stream().look_after_peer(parameters().keepalive_s, true);
  if (!beside) step(peer, LinkEvent::kOpened);
}

}  // namespace weft::tcp
