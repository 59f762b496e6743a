// SPDX-License-Identifier: BSD-2-Clause
// Peers of reliable datagrams and the connections to them: opened when the first operation needs one, accepted when the
// peer is first; fi_cm(3).
//
// When both ends ask at once, the request of the end with the greater address goes on: it turns the other one down,
// whose end gives its own up and accepts. A refusal does not say more, so it is taken for that: it is repeated for a
// while. A request from our own address is the other end of one of ours.
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <new>
#include <utility>

#include "objects/connect_failure.h"
#include "tcp/names.h"
#include "tcp/provider.h"
#include "tcp/reliable_endpoint.h"
#include "tcp/socket.h"

namespace weft::tcp {
namespace {

using namespace std::chrono_literals;

// A request that was refused is repeated after this, unless the peer's own comes first.
constexpr Clock::duration kRefusalPatience = 200ms;

}  // namespace

Channel* ReliableEndpoint::make_channel(Peer& peer) noexcept {
  reap();
  auto* channel = new (std::nothrow) Channel(*this, peer);
  if (channel == nullptr) return nullptr;
  peer.endpoint = this;
  channels_.push_back(*channel);
  return channel;
}

void ReliableEndpoint::reap() noexcept {
  while (!dying_.empty()) delete &dying_.pop_front();
}

// The channel serves nobody any more.
void ReliableEndpoint::detach(Channel& channel) noexcept {
  Peer& peer = channel.peer();
  if (peer.channel == &channel) {
    peer.channel = nullptr;
    peer.process = 0;
  }
  if (peer.twin == &channel) peer.twin = nullptr;
  static_cast<ListHook<Channel>&>(channel).unlink();
  static_cast<ListHook<CrowdedTag>&>(channel).unlink();
  dying_.push_back(channel);
}

void ReliableEndpoint::close_channel(Channel& channel, int reason) noexcept {
  detach(channel);
  channel.close(reason);
}

// ---- We ask ----

// What is left of the time that the peer has got; 0: no end.
int ReliableEndpoint::patience_ms(const Peer& peer) const noexcept {
  if (parameters().connect_timeout_ms == 0) return 0;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(peer.give_up - net::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 1));
}

// The connection is wanted; its outcome is heard later. What fails at once is the caller's to report.
Status ReliableEndpoint::connect(Peer& peer) noexcept {
  if (peer.give_up == Clock::time_point()) peer.give_up = net::now() + parameters().connect_timeout_ms * 1ms;
  auto socket = open_towards(peer.address, own_, domain_.spare_socket());
  if (!socket) return socket.error();
  Channel* channel = make_channel(peer);
  if (channel == nullptr) return Status(-FI_ENOMEM);
  if (Status status = channel->ask(own_, std::move(*socket), patience_ms(peer)); !status.ok()) {
    close_channel(*channel, status.error());
    return status;
  }
  peer.channel = channel;
  return {};
}

void ReliableEndpoint::on_open(Channel& channel) noexcept {
  if (channel.peer().channel == &channel) flush(channel.peer());
}

void ReliableEndpoint::on_unreachable(Channel& channel, int error, const char* why) noexcept {
  Peer& peer = channel.peer();
  const int reported = error == EPIPE ? FI_ECONNRESET : error;
  const std::string sentence = channel.failure(reported, why);
  FI_WARN(&provider(), FI_LOG_EP_CTRL, "%s\n", sentence.c_str());
  close_channel(channel, reported);
  fail_waiting(peer, reported, sentence);
}

void ReliableEndpoint::on_refused(Channel& channel) noexcept {
  Peer& peer = channel.peer();
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s turned our request down; its own crossed ours, or it is not ready\n",
          peer.address.to_string().c_str());
  close_channel(channel, FI_ECONNREFUSED);
  auto again = net::now() + kRefusalPatience;
  if (parameters().connect_timeout_ms != 0) again = std::min(again, peer.give_up);
  engine().set_deadline(peer.timer, again);
}

void ReliableEndpoint::on_peer_timer(Peer& peer) noexcept {
  if (peer.channel != nullptr || peer.waiting.empty()) return;
  if (parameters().connect_timeout_ms != 0 && net::now() >= peer.give_up) {
    const std::string sentence =
        connect_failure(FI_ECONNREFUSED, "the peer turned every request down", "waiting for one of its own", own_,
                        peer.address, net::now() - peer.give_up + parameters().connect_timeout_ms * 1ms);
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "%s\n", sentence.c_str());
    return fail_waiting(peer, FI_ECONNREFUSED, sentence);
  }
  connect_or_fail(peer);
}

void ReliableEndpoint::connect_or_fail(Peer& peer) noexcept {
  const Status status = connect(peer);
  if (status.ok()) return;
  fail_waiting(peer, status.error(),
               connect_failure(status.error(), nullptr, "opening a connection", own_, peer.address, 0ms));
}

// `error` is positive.
void ReliableEndpoint::fail_waiting(Peer& peer, int error, std::string_view sentence) noexcept {
  peer.give_up = {};
  engine().clear_deadline(peer.timer);
  while (!peer.waiting.empty()) {
    WaitingTransmit& waiting = peer.waiting.pop_front();
    --peer.waiting_count;
    fail(waiting, error, sentence);
  }
}

// It waits no longer. `error` is positive.
void ReliableEndpoint::fail(WaitingTransmit& waiting, int error, std::string_view sentence) noexcept {
  const rdm::TransmitRequest& request = waiting.request;
  routes_of(request).transmit_failed(rdm::completion_flags_of(request.operation), request.context, error, error,
                                     sentence);
  waiting_.give_back(&waiting);
}

// A context closes: the memory of what it has under way is about to go, so the connections that carry that end.
void ReliableEndpoint::abandon(CompletionRoutes& routes) noexcept {
  peers_.for_each([&](Peer& peer) {
    for (auto it = peer.waiting.begin(); it != peer.waiting.end();) {
      WaitingTransmit& each = *it;
      ++it;
      if (each.request.routes != &routes) continue;
      each.unlink();
      --peer.waiting_count;
      fail(each, FI_ECANCELED);
    }
  });
  for (auto it = channels_.begin(); it != channels_.end();) {
    Channel& channel = *it;
    ++it;
    if (channel.stream().carries(routes)) close_channel(channel, FI_ECANCELED);
  }
}

// The peer is connected: what waited for that goes, in order. The stream's queue is as long as the list may be.
void ReliableEndpoint::flush(Peer& peer) noexcept {
  peer.give_up = {};
  engine().clear_deadline(peer.timer);
  while (!peer.waiting.empty() && peer.channel != nullptr) {
    WaitingTransmit& waiting = peer.waiting.pop_front();
    --peer.waiting_count;
    const ssize_t result = hand_on(*peer.channel, waiting.request);
    if (result != 0)
      fail(waiting, static_cast<int>(-result));
    else
      waiting_.give_back(&waiting);
  }
  if (!peer.waiting.empty()) fail_waiting(peer, FI_ECONNRESET);
}

void ReliableEndpoint::on_channel_end(Channel& channel, int error) noexcept {
  Peer& peer = channel.peer();
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "the connection with %s ended: %s\n", peer.address.to_string().c_str(),
          error != 0 ? fi_strerror(error) : "closed");
  detach(channel);
  reconnect(peer);  // nothing of what waits has been sent: the connection was idle
}

// ---- Idle connections ----

ReliableEndpoint::IdleTimer::IdleTimer(ReliableEndpoint& owner) noexcept
    : Watch([](Watch&) noexcept {},
            [](Watch& watch) noexcept { static_cast<IdleTimer&>(watch).endpoint.check_idle(); }),
      endpoint(owner) {}

// Now, and at every half of the time that a connection may be idle for.
void ReliableEndpoint::check_idle() noexcept {
  if (idle_timeout_ == Clock::duration::zero()) return;
  const auto now = net::now();
  for (auto it = channels_.begin(); it != channels_.end();) {
    Channel& channel = *it;
    ++it;
    channel.check_idle(now);
  }
  engine().set_deadline(idle_timer_, now + std::max<Clock::duration>(idle_timeout_ / 2, 1ms));
}

// Both ends have said that they send nothing more.
void ReliableEndpoint::on_idle(Channel& channel) noexcept {
  Peer& peer = channel.peer();
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "the connection with %s is idle and ends\n", peer.address.to_string().c_str());
  close_channel(channel, FI_ECANCELED);
  reconnect(peer);
}

// What waits for the peer goes over another connection; soon, because a handler of the former one is running.
void ReliableEndpoint::reconnect(Peer& peer) noexcept {
  if (peer.channel != nullptr || peer.waiting.empty()) return;
  peer.give_up = net::now() + parameters().connect_timeout_ms * 1ms;
  engine().set_deadline(peer.timer, net::now());
}

// ---- The peer asks ----

void PeerListener::on_request(ConnectRequest& request) noexcept {
  leave_half_open(request);
  endpoint_.on_request(request);
  delete &request;  // what was not accepted is refused so
}

void ReliableEndpoint::on_request(ConnectRequest& request) noexcept {
  Greeting greeting;
  if (!greeting.read(request.message().data())) {
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "a request from %s is turned down: it is not one for reliable datagrams\n",
            request.peer().to_string().c_str());
    return;
  }
  Address from = request.peer(), own = own_;
  from.set_port(ntohs(greeting.port));
  if (own.is_any()) {
    own = tcp::name_of(request.socket(), own);
    own.set_port(own_.port());
  }
  Peer* peer = peers_.at(from);
  if (peer == nullptr) return;
  if (from == own) {
    if (peer->twin == nullptr) accept(*peer, request, greeting, true);
    return;
  }
  if (!refuses(*peer, own, ntohl(greeting.process))) accept(*peer, request, greeting, false);
}

bool ReliableEndpoint::refuses(Peer& peer, const Address& own, std::uint32_t process) noexcept {
  Channel* current = peer.channel;
  if (current == nullptr) return false;
  // Who asks again has closed the connection that both ends had agreed to close.
  if (current->agreed_to_close()) {
    close_channel(*current, FI_ECANCELED);
    return false;
  }
  const bool asking = !current->open();
  // A request of the process that we are connected with, or of one that did not say who it is, crossed ours.
  const bool stays = asking ? peer.address < own : peer.process == 0 || peer.process == process;
  if (asking || stays)
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "the request of %s crossed ours, which %s\n", peer.address.to_string().c_str(),
            stays ? "goes on" : "gives way");
  if (stays) return true;
  // A peer that started again: what went on with its former life is over.
  close_channel(*current, asking ? FI_EALREADY : FI_ECONNRESET);
  return false;
}

void ReliableEndpoint::accept(Peer& peer, ConnectRequest& request, const Greeting& greeting, bool twin) noexcept {
  Channel* channel = make_channel(peer);
  if (channel == nullptr) return;
  const std::uint8_t version = Greeting::common(greeting.version);
  Greeting answer = Greeting::of(own_.port(), process_);
  answer.version = version == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(version | kAnsweredVersion);
  const Agreement agreement{
      .version = version,
      .closes = version >= 1 && !twin && closes_idle(peer) && (greeting.features & kAskerCloses) != 0,
      .atomics = version >= 1 && !request.message().swapped() && (greeting.features & kAskerHasAtomics) != 0};
  if (agreement.closes) answer.features |= kAnswererCloses;
  if (agreement.atomics) answer.features |= kAnswererHasAtomics;
  CmMessage message;
  message.compose(CmType::kAccept, &answer, sizeof answer);
  const auto bytes = message.unsent();
  UniqueFd socket = request.answer();
  // The socket is new and its buffer empty: the kernel takes it whole, or the connection is broken anyway.
  const ssize_t sent = net::send(socket.get(), bytes.data(), bytes.size());
  if (sent != static_cast<ssize_t>(bytes.size())) {
    close_channel(*channel, FI_ECONNRESET);
    if (!twin && !peer.waiting.empty()) engine().set_deadline(peer.timer, net::now());
    return;
  }
  (twin ? peer.twin : peer.channel) = channel;
  if (!twin) peer.process = ntohl(greeting.process);
  channel->start(std::move(socket), request.message().swapped(), agreement, &request);
  if (!twin) flush(peer);
}

}  // namespace weft::tcp
