// SPDX-License-Identifier: BSD-2-Clause
// Requests for connections, ours and the peers', with their private data (packet.h), and the events of connections;
// fi_cm(3), fi_eq(3).
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "rxm/logging.h"
#include "rxm/peers/peer_links.h"

namespace weft::rxm {

using rdm::LinkEvent;

namespace {

constexpr std::size_t kEventBytes = sizeof(fi_eq_cm_entry) + 512;
constexpr int kMaxEvents = 128;  // per call

// The number for the peer's packets. It also contains our process number. A peer without that number (release 1.17)
// would mistake a request that crosses its own for one of a restarted process at our address, and drop its connection.
std::uint64_t number_for(const Channel& channel) noexcept {
  const auto number = channel.number != 0 ? channel.number : static_cast<std::uint32_t>(channel.peer->id);
  return static_cast<std::uint64_t>(::getpid()) << 32 | number;
}
// Limits the time of a request in two parts, where the lower endpoint is weft's, unless its own limits are shorter. For
// endpoints of other providers only the sum is a limit: the peer's deadline.
void limit_request(fid_ep* ep, int connect_ms, int answer_ms) noexcept {
  int limits[] = {0, 0};
  constexpr int kOptions[] = {FI_OPT_WEFT_CONNECT_TIMEOUT, FI_OPT_WEFT_ANSWER_TIMEOUT};
  for (int i = 0; i < 2; ++i) {
    std::size_t size = sizeof limits[i];
    if (fi_getopt(&ep->fid, FI_OPT_ENDPOINT, kOptions[i], &limits[i], &size) != 0) return;
  }
  const auto shorter = [](int a, int b) { return a > 0 && a < b ? a : b; };  // 0: no limit
  const int shortest[] = {shorter(limits[0], connect_ms), shorter(limits[1], answer_ms)};
  for (int i = 0; i < 2; ++i) (void)fi_setopt(&ep->fid, FI_OPT_ENDPOINT, kOptions[i], &shortest[i], sizeof shortest[i]);
}

constexpr std::uint32_t process_of(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(number >> 32);
}

// Whether a magic number, a mark or a token follows the first `behind` bytes.
template <class Number>
bool has_magic(Number wanted, const void* data, std::size_t len, std::size_t behind) noexcept {
  for (std::size_t at = behind; at + sizeof wanted <= len; at += sizeof wanted) {
    Number magic = 0;
    std::memcpy(&magic, static_cast<const std::byte*>(data) + at, sizeof magic);
    if (magic == wanted) return true;
  }
  return false;
}

// Appends a magic number or a mark to the first `len` bytes; returns the new length.
template <class Data, class Number>
std::size_t append(Number number, Introduction<Data>& introduction, std::size_t len) noexcept {
  std::memcpy(reinterpret_cast<std::byte*>(&introduction) + len, &number, sizeof number);
  return len + sizeof number;
}

}  // namespace

void PeerLinks::read_events() noexcept {
  read_events(events_.get());
  if (local_ != nullptr) read_events(local_->events());
  if (successors_ != 0) settle_successors();
  check_deadlines();
  if (closes_idle()) check_idle();
}

void PeerLinks::read_events(fid_eq* queue) noexcept {
  alignas(fi_eq_cm_entry) std::byte bytes[kEventBytes];
  for (int i = 0; i < kMaxEvents; ++i) {
    uint32_t event = 0;
    const ssize_t got = fi_eq_read(queue, &event, bytes, sizeof bytes, 0);
    if (got == -FI_EAVAIL)
      on_event_error(queue);
    else if (got >= static_cast<ssize_t>(sizeof(fi_eq_cm_entry)))
      on_event(event, *reinterpret_cast<const fi_eq_cm_entry*>(bytes),
               static_cast<std::size_t>(got) - sizeof(fi_eq_cm_entry));
    else
      break;
  }
}

Channel* PeerLinks::channel_of(const ::fid* fid) noexcept {
  const auto found = channels_by_fid_.find(fid);
  return found == channels_by_fid_.end() ? nullptr : found->second;
}

void PeerLinks::on_event(uint32_t event, const fi_eq_cm_entry& entry, std::size_t data_len) noexcept {
  if (event == FI_CONNREQ) {
    const bool local = local_ != nullptr && entry.fid == &local_->listener()->fid;
    on_request(local ? *services_.domain.local() : services_.domain.lower(), entry.info, entry.data, data_len);
    return fi_freeinfo(entry.info);
  }
  Channel* channel = channel_of(entry.fid);
  if (channel == nullptr) return;
  if (event == FI_CONNECTED) return on_connected(*channel, entry.data, data_len);
  if (event != FI_SHUTDOWN) return;
  completions_of(*channel).drain();  // packets that the peer sent before are still handled
  if (channel->state == Channel::State::kClosed) return;
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "connection with %s closed: by the peer\n",
          channel->peer->address.to_string().c_str());
  end_channel(*channel, LinkEvent::kEnded, FI_ECONNRESET);
}

void PeerLinks::on_event_error(fid_eq* queue) noexcept {
  fi_eq_err_entry error{};
  if (fi_eq_readerr(queue, &error, 0) <= 0) return;
  Channel* channel = channel_of(error.fid);
  if (channel == nullptr) return;
  RejectData rejection{.version = 0};
  if (error.err_data_size >= sizeof rejection) std::memcpy(&rejection, error.err_data, sizeof rejection);
  LocalPlace place;
  const bool connecting = channel->state == Channel::State::kConnecting;
  if (connecting && rejection.version == kCmVersion && rejection.reason == Reason::kAlready) {
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s reports that its request crossed ours, which gives way\n",
            channel->peer->address.to_string().c_str());
    return end_channel(*channel, LinkEvent::kRejected, FI_EALREADY);
  }
  if (connecting && is_local(*channel->side)) return redirect(*channel, nullptr);
  if (connecting && channel->offers_local && rejection.version == kCmVersion && rejection.reason == Reason::kLocal &&
      error.err_data_size >= sizeof place) {
    std::memcpy(&place, error.err_data, sizeof place);
    return redirect(*channel, may_be_local(channel->peer->address) ? &place : nullptr);
  }
  // A peer that rejects a request sends data with the rejection.
  const bool refused = connecting && rejection.version != kCmVersion && error.err == FI_ECONNREFUSED;
  char text[256];
  fi_eq_strerror(queue, error.prov_errno, error.err_data, text, sizeof text);
  completions_of(*channel).drain();  // packets that the peer sent before are still handled
  if (channel->state == Channel::State::kClosed) return;
  end_channel(*channel, refused ? LinkEvent::kRefused : LinkEvent::kEnded, error.err, text);
}

void PeerLinks::on_connected(Channel& channel, const void* data, std::size_t len) noexcept {
  if (channel.state == Channel::State::kConnecting) {
    AcceptData accepted;
    if (len < sizeof accepted) return protocol_error(channel, "acceptance without private data");
    std::memcpy(&accepted, data, sizeof accepted);
    channel.remote_id = accepted.id;
    // Responses to packets that came before this event.
    for (Packet& early : channel.packets)
      std::memcpy(early.buffer->bytes + offsetof(ControlHeader, connection), &accepted.id, sizeof accepted.id);
    channel.peer->process = process_of(accepted.id);
    if (channel.side->counts_receives) channel.credits.agree(accepted.flow_control, accepted.receive_size);
    if (has_magic(kScarceMagic, data, len, sizeof accepted)) posted_.on_follower(channel);
    channel.has_answers = has_magic(kAnswersMagic, data, len, sizeof accepted);
    if (closes_idle() && has_magic(kIdleMagic, data, len, sizeof accepted))
      channel.idle_close.allow(idle_timeout_, Clock::now());
  }
  channel.state = Channel::State::kOpen;
  if (channel.has_retries()) services_.retry_later(channel);
  if (channel.peer->channel == &channel) step(*channel.peer, LinkEvent::kOpened);
}

// ---- Successors ----

bool PeerLinks::has_successor() const noexcept {
  if (successors_ == 0) return false;
  for (const Channel& channel : services_.channels)
    if (channel.peer->successor == &channel && channel.state == Channel::State::kOpen) return true;
  return false;
}

// A successor replaces the peer's connection only after it has stayed open for one round: if its process has died
// meanwhile, its end arrives by then. At most one a round, because closing the old connection may close other channels.
void PeerLinks::settle_successors() noexcept {
  Channel* next = nullptr;
  for (Channel& channel : services_.channels) {
    if (channel.peer->successor != &channel || channel.state != Channel::State::kOpen) continue;
    services_.engine.read_all_events();
    if (std::exchange(channel.peer->successor_settled, true)) next = &channel;
  }
  if (next == nullptr) return;
  Peer& peer = *next->peer;
  peer.successor = nullptr;
  --successors_;
  if (peer.channel != nullptr) close_channel(*peer.channel, FI_ECONNRESET);
  peer.channel = next;
  peer.process = peer.successor_process;
  peer.link = rdm::LinkState::kAccepting;
  step(peer, LinkEvent::kOpened);
}

// ---- Requests ----

// Reports how many receives are posted here for the peer's packets.
template <class Data>
void PeerLinks::describe_receives(Channel& channel, Data& data) noexcept {
  data.receive_size = kReceivesPerChannel;
  if (!channel.side->counts_receives) return;
  data.receive_size = std::exchange(channel.credits.unreported, 0);
  data.flow_control = kFlowControl;
}

// The outcome is an event.
Status PeerLinks::connect(Peer& peer) noexcept {
  const rdm::LinkStep step = rdm::next(link_of(peer), LinkEvent::kOperation);
  if ((step.actions & rdm::kLinkConnect) == 0) return {};
  peer.retry_at = Deadline();
  peer.use_inserted_address();
  const bool loopback = peer.address == own_;
  if (Status status = request(peer, nullptr, !loopback && may_be_local(peer.address)); !status.ok()) return status;
  peer.link = step.state;
  start_deadline(peer);
  services_.engine.wake_sleepers();
  return {};
}

// Sends a request to `place`; null: to the peer's device, and `offers` to continue on this host.
Status PeerLinks::request(Peer& peer, const LocalPlace* place, bool offers) noexcept {
  LowerSide& side = place != nullptr ? *services_.domain.local() : services_.domain.lower();
  const Address to = place != nullptr ? Address::loopback(AF_INET, place->port) : peer.address;
  InfoPtr info(duplicate_info(place != nullptr ? side.info.get() : &lower_info_));
  if (info == nullptr) return Status(-FI_ENOMEM);
  Address from = own_;
  from.set_port(0);
  if (place == nullptr && info->src_addr != nullptr && info->src_addrlen >= from.size())
    std::memcpy(info->src_addr, from.data(), from.size());
  const Result<Channel*> opened = open_channel(peer, side, info.get());
  if (!opened) return opened.error();
  Channel* const channel = *opened;
  const Parameters& parameters = services_.domain.fabric().parameters;
  limit_request(channel->ep, parameters.connect_timeout_ms, parameters.answer_timeout_ms);
  Introduction<ConnectData> request;
  request.data.port = own_.port();
  request.data.eager_limit = static_cast<uint32_t>(services_.eager_limit);
  describe_receives(*channel, request.data);
  request.data.id = number_for(*channel);
  std::size_t len = sizeof request.data;
  if (closes_idle()) len = append(kIdleMagic, request, len);
  len = append(kScarceMagic, request, len);
  len = append(kAnswersMagic, request, len);
  if (own_.is_any()) len = append(kEverywhereMagic, request, len);
  if (place != nullptr) len = append(place->token, request, len);
  if (channel->offers_local = offers; offers) len = append(local_mark(), request, len);
  if (const int error = fi_connect(channel->ep, to.data(), &request, len); error != 0) {
    close_channel(*channel, -error);
    return Status(error);
  }
  peer.channel = channel;
  return {};
}

void PeerLinks::reject(LowerSide& side, const fi_info& info, Reason reason) noexcept {
  RejectData data;
  data.reason = reason;
  fi_reject(is_local(side) ? local_->listener() : listener_.get(), info.handle, &data, sizeof data);
}

void PeerLinks::on_request(LowerSide& side, fi_info* info, const void* data, std::size_t len) noexcept {
  ConnectData request;
  auto from = Address::from(info->dest_addr, info->dest_addrlen);
  const bool understood = from && len >= sizeof request;
  if (understood) std::memcpy(&request, data, sizeof request);
  if (!understood || request.version != kCmVersion || request.byte_order != kByteOrder ||
      request.control_version != kControlVersion || request.op_version != kOpVersion ||
      request.eager_limit != services_.eager_limit) {
    FI_WARN(&provider(), FI_LOG_EP_CTRL,
            "connection request rejected: its version or its FI_OFI_RXM_BUFFER_SIZE differs\n");
    return reject(side, *info, Reason::kRefused);
  }
  const bool local = is_local(side);
  if (local && !has_magic(local_->place().token, data, len, sizeof request))
    return reject(side, *info, Reason::kRefused);
  if (!local && may_be_local(*from) && has_magic(local_mark(), data, len, sizeof request) && invite(*info)) return;
  if (local) *from = own_;
  from->set_port(request.port);
  const std::uint32_t process = process_of(request.id);
  Peer* peer =
      services_.peers.requester(*services_.vector, *from, has_magic(kEverywhereMagic, data, len, sizeof request),
                                [&](const Peer& same) { return same.may_have_requested(process); });
  if (peer == nullptr) return reject(side, *info, Reason::kRefused);
  Address own = own_;
  if (own.is_any())
    if (auto reached = Address::from(info->src_addr, info->src_addrlen)) {
      own = *reached;
      own.set_port(own_.port());
    }
  const bool restarted = peer->process != 0 && peer->process != process;
  const rdm::LinkStep step = peer->on_request(link_of(*peer), own, restarted, provider());
  if ((step.actions & rdm::kLinkReject) != 0) return reject(side, *info, Reason::kAlready);
  const bool beside = (step.actions & rdm::kLinkAcceptBeside) != 0;
  const bool succeeds = step.error == FI_ECONNRESET;  // another process
  if (succeeds && peer->successor != nullptr) close_channel(*peer->successor, FI_ECONNRESET);
  if (!succeeds) {
    if ((step.actions & rdm::kLinkClose) != 0) close_channel(*peer->channel, step.error);
    peer->link = step.state;
    if (!beside) peer->process = process;
  }
  const Terms terms{.remote_id = request.id & 0xffff'ffff,
                    .receives = request.receive_size,
                    .flow_control = request.flow_control,
                    .process = process,
                    .beside = beside,
                    .succeeds = succeeds,
                    .closes_idle = !beside && closes_idle() && has_magic(kIdleMagic, data, len, sizeof request),
                    .follows_scarcity = has_magic(kScarceMagic, data, len, sizeof request),
                    .has_answers = has_magic(kAnswersMagic, data, len, sizeof request)};
  if (!accept(*peer, side, info, terms) && !beside && !succeeds) this->step(*peer, LinkEvent::kAbandoned);
}

// False: the request was rejected, or the connection is closed.
bool PeerLinks::accept(Peer& peer, LowerSide& side, fi_info* info, const Terms& terms) noexcept {
  const Result<Channel*> opened = open_channel(peer, side, info);
  if (!opened) return false;
  Channel* const channel = *opened;
  channel->state = Channel::State::kAccepting;
  channel->remote_id = terms.remote_id;
  if (side.counts_receives) channel->credits.agree(terms.flow_control, terms.receives);
  Introduction<AcceptData> answer;
  answer.data.id = number_for(*channel);
  describe_receives(*channel, answer.data);
  std::size_t len = sizeof answer.data;
  if (terms.closes_idle) {
    len = append(kIdleMagic, answer, len);
    channel->idle_close.allow(idle_timeout_, Clock::now());
  }
  if (terms.follows_scarcity) {
    len = append(kScarceMagic, answer, len);
    posted_.on_follower(*channel);
  }
  if (terms.has_answers) len = append(kAnswersMagic, answer, len);
  channel->has_answers = terms.has_answers;
  if (const int error = fi_accept(channel->ep, &answer, len); error != 0) {
    close_channel(*channel, -error);
    return false;
  }
  if (terms.succeeds) {
    ++successors_;
    peer.successor_process = terms.process;
    peer.successor_settled = false;
  }
  Channel*& place = terms.beside ? peer.beside : terms.succeeds ? peer.successor : peer.channel;
  place = channel;
  if (place != peer.channel) return true;
  peer.retry_at = Deadline();
  start_deadline(peer);
  return true;
}

}  // namespace weft::rxm
