// SPDX-License-Identifier: BSD-2-Clause
// Links to peers, their deadlines, and the lives of connections until they are idle; see peer_links.h.
#include "rxm/peers/peer_links.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "objects/sentence.h"
#include "rxm/logging.h"

namespace weft::rxm {

using rdm::IdleClose, rdm::IdleCloseMessage;
using rdm::LinkEvent, rdm::LinkState;

namespace {

rdm::LinkTimeouts timeouts_of(const Parameters& parameters) noexcept {
  using std::chrono::milliseconds;
  return {.start = milliseconds(parameters.start_timeout_ms),
          .connect = milliseconds(parameters.connect_timeout_ms) + milliseconds(parameters.answer_timeout_ms)};
}

// The phase in which the deadline expired; null: the peer has rejected our request.
const char* phase_name(const Channel* channel) noexcept {
  if (channel == nullptr) return "waiting for a request of the peer's own";
  return channel->state == Channel::State::kAccepting ? "accepting the peer's request" : "connecting";
}

// Neither end has an operation, packet or response under way.
bool is_quiet(Channel& channel) noexcept {
  const Peer& peer = *channel.peer;
  return channel.state == Channel::State::kOpen && peer.channel == &channel && peer.beside == nullptr &&
         peer.waiting.empty() && channel.atomics == 0 && channel.packets.empty() && channel.stalled.empty() &&
         channel.waiting_copies.empty() && channel.copies.empty() && channel.targets.empty() &&
         channel.assemblies.empty() && channel.flight.empty() && channel.scarcity.kept.empty() &&
         channel.unexpected.empty();
}

void send(Packets& packets, Channel& channel, IdleCloseMessage message) noexcept {
  packets.post_control(channel, PacketType::kIdleClose, static_cast<std::uint64_t>(message));
}

}  // namespace

PeerLinks::PeerLinks(EndpointServices& services, fi_info& lower, Packets& packets, PostedBuffers& posted,
                     Sender& sender, Rendezvous& rendezvous, Receiver& receiver, Completions& completions) noexcept
    : services_(services),
      packets_(packets),
      posted_(posted),
      sender_(sender),
      rendezvous_(rendezvous),
      receiver_(receiver),
      completions_(completions),
      lower_info_(lower),
      timeouts_(timeouts_of(services.domain.fabric().parameters)),
      idle_timeout_(std::chrono::milliseconds(services.domain.fabric().parameters.idle_timeout_ms)) {}

Status PeerLinks::open() noexcept {
  fid_fabric* const fabric = services_.domain.fabric().lower();
  if (const int error = open_events(fabric, events_); error != 0) return Status(error);
  fid_pep* pep = nullptr;
  if (const int error = fi_passive_ep(fabric, &lower_info_, &pep, nullptr); error != 0) return Status(error);
  listener_.reset(pep);
  if (const int error = fi_pep_bind(pep, &events_->fid, 0); error != 0) return Status(error);
  std::size_t private_data = 0, size = sizeof private_data;
  const int error = fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &private_data, &size);
  return error == 0 && private_data < sizeof(ConnectData) ? Status(-FI_ENOSYS) : Status();
}

Status PeerLinks::listen() noexcept {
  if (const int error = fi_listen(listener_.get()); error != 0) return Status(error);
  return read_own_name();
}

Status PeerLinks::read_own_name() noexcept {
  sockaddr_storage name{};
  std::size_t len = sizeof name;
  if (const int error = fi_getname(&listener_->fid, &name, &len); error != 0) return Status(error);
  const auto own = Address::from(&name, len);
  if (!own) return own.error();
  own_ = *own;
  return {};
}

// ---- Links ----

// Executes what rdm/peer_link.h decides. `error`, `sentence`: of operations that this step fails.
void PeerLinks::step(Peer& peer, LinkEvent event, int error, std::string_view sentence) noexcept {
  const auto retry_at = peer.contact.retry_at(event, Clock::now(), timeouts_, peer.deadline);
  const rdm::LinkStep step = rdm::next(link_of(peer), event, {.repeated = retry_at.has_value()});
  if ((step.actions & rdm::kLinkClose) != 0 && peer.channel != nullptr) close_channel(*peer.channel, error);
  peer.link = step.state;
  if ((step.actions & rdm::kLinkRetryLater) != 0) peer.retry_at = Deadline(*retry_at);
  if (!sentence.empty())
    FI_LOG(&provider(), step.state == LinkState::kRejected ? FI_LOG_INFO : FI_LOG_WARN, FI_LOG_EP_CTRL,
           "connection with %s closed: %.*s\n", peer.address.to_string().c_str(), static_cast<int>(sentence.size()),
           sentence.data());
  if ((step.actions & rdm::kLinkFlush) != 0) {
    stop_timers(peer);
    peer.contact.reached();
    sender_.flush(peer);
  }
  if ((step.actions & rdm::kLinkFail) != 0) fail_waiting(peer, error, sentence);
  if ((step.actions & rdm::kLinkReconnect) != 0) peer.waiting.empty() ? stop_timers(peer) : connect_or_fail(peer);
}

void PeerLinks::connect_or_fail(Peer& peer) noexcept {
  const Status status = connect(peer);
  if (status.ok()) return;
  fail_waiting(peer, status.error(),
               connect_failure(status.error(), nullptr, "opening a connection", own_, peer.address, {}));
}

void PeerLinks::fail_waiting(Peer& peer, int error, std::string_view sentence) noexcept {
  stop_timers(peer);
  sender_.fail_waiting(peer, error, sentence);
}

// Unless it runs already.
void PeerLinks::start_deadline(Peer& peer) noexcept {
  if (connecting_.linked(peer)) return;
  peer.deadline = Deadline(Clock::now() + timeouts_.connect);
  connecting_.push_back(peer);
  services_.note_work();
}

void PeerLinks::stop_timers(Peer& peer) noexcept {
  connecting_.unlink(peer);
  peer.deadline = peer.retry_at = Deadline();
}

Deadline PeerLinks::next_deadline() noexcept {
  Deadline next = idle_check_;
  for (Peer& peer : connecting_) next = std::min({next, peer.deadline, peer.retry_at});
  return next;
}

void PeerLinks::check_deadlines() noexcept {
  connecting_.for_each([this](Peer& peer) {
    if (peer.deadline.expired()) {
      const std::string sentence = connect_failure(FI_ETIMEDOUT, nullptr, phase_name(peer.channel), own_, peer.address,
                                                   Clock::now() - peer.deadline.time() + timeouts_.connect);
      step(peer, LinkEvent::kDeadline, FI_ETIMEDOUT, sentence);
    } else if (peer.retry_at.expired()) {
      step(peer, LinkEvent::kRetry);
    }
  });
}

// ---- Connections ----

// Opens and binds the lower endpoint of a connection, or returns an error. The caller releases a partial one.
int PeerLinks::open_endpoint(Channel& channel, fi_info* info) noexcept {
  const bool local = is_local(*channel.side);
  fid_ep* const shared = local ? nullptr : posted_.shared();
  fid_eq* const events = local ? local_->events() : events_.get();
  if (shared != nullptr) info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
  if (const int error = fi_endpoint(channel.side->domain.get(), info, &channel.ep, nullptr); error != 0) {
    channel.ep = nullptr;
    if (info->handle != nullptr) reject(*channel.side, *info, Reason::kRefused);
    return error;
  }
  const auto& reads = services_.remote_reads;
  const auto& writes = services_.remote_writes;
  const bool shares = services_.shares_memory;
  int error =
      shares ? 0 : fi_setopt(&channel.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &shares, sizeof shares);
  if (error == -FI_ENOPROTOOPT) error = 0;  // a provider that never shares any
  const int refuses = 1;  // operations wait for the event of the connection's end: see Sender::flush()
  (void)fi_setopt(&channel.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_REFUSE_AFTER_END, &refuses, sizeof refuses);
  if (error == 0) error = fi_ep_bind(channel.ep, &events->fid, 0);
  if (error == 0) error = fi_ep_bind(channel.ep, &completions_of(channel).queue()->fid, FI_TRANSMIT | FI_RECV);
  if (error == 0 && reads != nullptr) error = fi_ep_bind(channel.ep, reads->all(), FI_REMOTE_READ);
  if (error == 0 && writes != nullptr) error = fi_ep_bind(channel.ep, writes->all(), FI_REMOTE_WRITE);
  if (error == 0 && shared != nullptr) error = fi_ep_bind(channel.ep, &shared->fid, 0);
  if (error == 0) error = fi_enable(channel.ep);
  if (error == 0 && shared != nullptr && !posted_.assign_number(channel)) error = -FI_ENOMEM;
  if (error != 0) return error;
  void* memory = nullptr;
  if (channel.side->stream && fi_open_ops(&channel.ep->fid, kPeerMemory, 0, &memory, nullptr) == 0)
    channel.memory = static_cast<const PeerMemoryOps*>(memory);
  try {
    channels_by_fid_[&channel.ep->fid] = &channel;
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
  return 0;
}

// The error of the lower provider, or -FI_ENOMEM; a request that `info` names is then rejected. The caller connects or
// accepts.
Result<Channel*> PeerLinks::open_channel(Peer& peer, LowerSide& side, fi_info* info) noexcept {
  std::unique_ptr<Channel> channel(new (std::nothrow) Channel);
  if (channel != nullptr)
    channel->side = &side;
  else if (info->handle != nullptr)
    reject(side, *info, Reason::kRefused);
  const int error = channel != nullptr ? open_endpoint(*channel, info) : -FI_ENOMEM;
  if (error != 0) {
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "cannot open an endpoint for a connection: %s\n", fi_strerror(-error));
    if (channel == nullptr) return failure(Status(error));
    if (channel->ep != nullptr) fi_close(&channel->ep->fid);
    posted_.on_closed(*channel);
    return failure(Status(error));
  }
  channel->peer = &peer;
  ++peer.channels;
  services_.channels.push_back(*channel);
  if (!posted_.post_for(*channel)) {
    close_channel(*channel.release(), FI_ENOMEM);
    return failure(FI_ENOMEM);
  }
  return channel.release();
}

// `error` is positive. The caller decides about operations that wait for the peer.
void PeerLinks::close_channel(Channel& channel, int error) noexcept {
  if (channel.state == Channel::State::kClosed) return;
  channel.state = Channel::State::kClosed;
  services_.channels.unlink(channel);
  services_.retries.unlink(channel);
  dying_.push_back(channel);
  services_.note_work();
  Peer& peer = *channel.peer;
  peer.detach(channel);
  if (peer.successor == &channel) {
    peer.successor = nullptr;
    --successors_;
  }
  channels_by_fid_.erase(&channel.ep->fid);
  fi_close(&std::exchange(channel.ep, nullptr)->fid);  // its operations complete with an error
  packets_.on_closed(channel);
  posted_.on_closed(channel);
  receiver_.on_closed(channel, error);
  rendezvous_.on_closed(channel, error);
  sender_.on_closed(channel, error);
}

void PeerLinks::end_channel(Channel& channel, LinkEvent event, int error, std::string_view sentence) noexcept {
  Peer& peer = *channel.peer;
  peer.channel == &channel ? step(peer, event, error, sentence) : close_channel(channel, error);
}

void PeerLinks::protocol_error(Channel& channel, const char* what) noexcept {
  if (channel.state == Channel::State::kClosed) return;
  FI_WARN(&provider(), FI_LOG_EP_DATA, "connection with %s closed: %s\n", channel.peer->address.to_string().c_str(),
          what);
  end_channel(channel, LinkEvent::kFailed, EPROTO);
}

void PeerLinks::abandon(CompletionRoutes& routes, const rdm::ReceiveSide& context) noexcept {
  services_.peers.for_each([&](Peer& peer) { sender_.cancel_waiting(peer, routes); });
  services_.channels.for_each([&](Channel& channel) {
    const bool arrives = receiver_.discard_for(channel, context);
    if (arrives || sender_.carries(channel, routes)) end_channel(channel, LinkEvent::kAbandoned, FI_ECANCELED);
  });
  read_completions();
  for (Channel& channel : dying_) sender_.cancel_unreturned(channel, routes);
}

void PeerLinks::read_completions() noexcept {
  completions_.read();
  if (local_ != nullptr) local_->completions.read();
}

void PeerLinks::close() noexcept {
  listener_.reset();
  if (local_ != nullptr) {
    services_.engine.remove(*local_);
    local_->stop_listening();
  }
  services_.peers.for_each([this](Peer& peer) { fail_waiting(peer, FI_ECANCELED); });
  while (!services_.channels.empty()) close_channel(services_.channels.front(), FI_ECANCELED);
}

void PeerLinks::close_unreturned() noexcept {
  if (local_ != nullptr) local_->completions.use(nullptr);
  while (!dying_.empty()) {
    Channel& channel = dying_.pop_front();
    sender_.abandon_unreturned(channel);
    rendezvous_.abandon_unreturned(channel);
    delete &channel;
  }
  services_.peers.for_each([](Peer& peer) { peer.stop_waiting(); });
  local_.reset();
  events_.reset();
}

// ---- Idle connections ----

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
  using Action = IdleClose::Action;
  const auto received = static_cast<IdleCloseMessage>(std::min<std::uint64_t>(message, UINT8_MAX));
  // A packet may come before the event of its connection, which enables the closing of idle connections.
  if (channel.state == Channel::State::kConnecting && received == IdleCloseMessage::kRequest)
    return send(packets_, channel, IdleCloseMessage::kDecline);
  const Action action = channel.idle_close.on_message(received, channel.activity, is_quiet(channel), Clock::now());
  if (action == Action::kSendAgree) send(packets_, channel, IdleCloseMessage::kAgree);
  if (action == Action::kSendDecline) send(packets_, channel, IdleCloseMessage::kDecline);
  if (action == Action::kResume) sender_.flush(*channel.peer);
  if (action == Action::kProtocolError) protocol_error(channel, "idle-close message out of order");
  if (action != Action::kClose) return;
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "connection with %s closed: idle\n", channel.peer->address.to_string().c_str());
  end_channel(channel, LinkEvent::kEnded, FI_ECANCELED);
}

}  // namespace weft::rxm
