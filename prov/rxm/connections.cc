// SPDX-License-Identifier: BSD-2-Clause
// Peers and connections to them: opened when the first operation needs one, accepted when the peer is first; fi_cm(3).
//
// When both ends ask at once, the request of the end with the greater address goes on: it turns the other one down,
// whose end gives its own up and accepts. A request from our own address is the other end of one of ours.
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "objects/connect_failure.h"
#include "rxm/domain.h"
#include "rxm/endpoint.h"
#include "rxm/provider.h"

namespace weft::rxm {
namespace {

constexpr std::size_t kEventBytes = sizeof(fi_eq_cm_entry) + 512;
constexpr int kMaxEvents = 128;  // per look at connections

// What the peer's packets shall bear. It also tells the peer our process: one that does not know it takes our request
// that crossed its own for one of a new process at our address, and gives up the connection that it has (release 1.17
// does).
std::uint64_t number_for(const Channel& channel) noexcept {
  const auto number = channel.number != 0 ? channel.number : static_cast<std::uint32_t>(channel.peer->id);
  return static_cast<std::uint64_t>(::getpid()) << 32 | number;
}
constexpr std::uint32_t process_of(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(number >> 32);
}

// What a peer that was not reached in time was waited for in; null: it has turned our request down.
const char* phase_name(const Channel* channel) noexcept {
  if (channel == nullptr) return "waiting for a request of the peer's own";
  return channel->state == Channel::State::kAccepting ? "accepting the peer's request" : "connecting";
}

}  // namespace

Channel* Endpoint::channel_of(const ::fid* fid) noexcept {
  const auto found = channels_by_fid_.find(fid);
  return found == channels_by_fid_.end() ? nullptr : found->second;
}

// What a peer sent before it went is in the queue already, behind no more than what the others have outstanding: they
// may go on sending meanwhile.
void Endpoint::read_what_is_there() noexcept {
  std::size_t most = shared_posted_;
  for (Channel& channel : channels_) most += channel.works;
  for (std::size_t found = 1; found != 0 && most != 0; most -= std::min(most, found)) found = read_completions();
}

// nullptr when the lower provider cannot, or memory runs out: then a request that `info` names is turned down. The
// caller connects or accepts.
Channel* Endpoint::open_channel(Peer& peer, fi_info* info) noexcept {
  std::unique_ptr<Channel> channel(new (std::nothrow) Channel);
  fid_ep* ep = nullptr;
  if (shared_receives_ != nullptr) info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
  int error = channel != nullptr ? fi_endpoint(domain_.lower(), info, &ep, nullptr) : -FI_ENOMEM;
  if (error != 0 && info->handle != nullptr) reject(info, static_cast<std::uint8_t>(Reason::kRefused));
  if (error == 0) {
    error = fi_ep_bind(ep, &lower_eq_->fid, 0);
    if (error == 0) error = fi_ep_bind(ep, &lower_cq_->fid, FI_TRANSMIT | FI_RECV);
    if (error == 0 && remote_reads_ != nullptr) error = fi_ep_bind(ep, remote_reads_->all(), FI_REMOTE_READ);
    if (error == 0 && remote_writes_ != nullptr) error = fi_ep_bind(ep, remote_writes_->all(), FI_REMOTE_WRITE);
    if (error == 0 && shared_receives_ != nullptr) error = fi_ep_bind(ep, &shared_receives_->fid, 0);
    if (error == 0) error = fi_enable(ep);
    channel->ep = ep;
  }
  if (error == 0 && shared_receives_ != nullptr && !give_number(*channel)) error = -FI_ENOMEM;
  if (error == 0) {
    try {
      channels_by_fid_[&ep->fid] = channel.get();
    } catch (const std::bad_alloc&) {
      error = -FI_ENOMEM;
    }
  }
  if (error != 0) {
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "no endpoint for a connection: %s\n", fi_strerror(-error));
    if (ep != nullptr) fi_close(&ep->fid);
    if (channel != nullptr) channels_by_number_.erase(channel->number);
    return nullptr;
  }
  channel->peer = &peer;
  channels_.push_back(*channel);
  if (!post_buffers(*channel)) {
    close_channel(*channel.release(), FI_ENOMEM);
    return nullptr;
  }
  return channel.release();
}

// The connection is wanted; its outcome is an event. What fails at once is the caller's to report.
Status Endpoint::connect(Peer& peer) noexcept {
  peer.retry_at = Deadline();
  InfoPtr info(duplicate_info(lower_info_.get()));
  if (info == nullptr) return Status(-FI_ENOMEM);
  Address from = own_;
  from.set_port(0);
  if (info->src_addr != nullptr && info->src_addrlen >= from.size())
    std::memcpy(info->src_addr, from.data(), from.size());
  Channel* channel = open_channel(peer, info.get());
  if (channel == nullptr) return Status(-FI_ENOMEM);
  Introduction<ConnectData> said;
  said.data.port = own_.port();
  said.data.eager_limit = static_cast<uint32_t>(eager_limit_);
  said.data.receive_size = kReceivesPerChannel;
  said.data.id = number_for(*channel);
  std::size_t len = sizeof said.data + offer_direct_reads(*channel, said.offer);
  len = offer_to_close(reinterpret_cast<std::byte*>(&said), len);
  if (const int error = fi_connect(channel->ep, peer.address.data(), &said, len); error != 0) {
    close_channel(*channel, -error);
    return Status(error);
  }
  peer.channel = channel;
  if (!static_cast<ListHook<Peer>&>(peer).linked()) {
    peer.deadline = Deadline::in_ms(connect_timeout_ms_);
    connecting_.push_back(peer);
    engine().wake_sleepers();
  }
  return {};
}

// `error` is positive. What waits for the peer is the caller's business.
void Endpoint::close_channel(Channel& channel, int error) noexcept {
  if (channel.state == Channel::State::kClosed) return;
  channel.state = Channel::State::kClosed;
  static_cast<ListHook<Channel>&>(channel).unlink();
  static_cast<ListHook<StalledTag>&>(channel).unlink();
  dying_.push_back(channel);
  Peer& peer = *channel.peer;
  if (peer.channel == &channel) {
    peer.channel = nullptr;
    peer.process = 0;
  }
  if (peer.twin == &channel) peer.twin = nullptr;
  channels_by_fid_.erase(&channel.ep->fid);
  channels_by_number_.erase(channel.number);
  if (last_sender_ == &channel) last_sender_ = nullptr;
  channel.direct.end();
  leave_lane(channel);
  fi_close(&std::exchange(channel.ep, nullptr)->fid);  // what it had completes with an error

  while (!channel.packets.empty()) release(channel.packets.pop_front());
  channel.packet_count = 0;
  while (!channel.unposted.empty()) {
    PostedBuffer& posted = channel.unposted.pop_front();
    buffers_.give_back(*posted.buffer);
    posted_pool_.give_back(&posted);
  }
  while (!channel.unexpected.empty()) {
    Unexpected& message = static_cast<Unexpected&>(channel.unexpected.pop_front());
    message.dead = true;
    message.channel = nullptr;
  }
  while (!channel.assemblies.empty()) fail_assembly(channel.assemblies.front(), error);
  for (auto it = channel.copies.begin(); it != channel.copies.end();) {
    RemoteCopy& each = *it;
    ++it;
    if (each.error == 0) each.error = error;
    if (each.outstanding == 0) go_on(each);
  }
  while (!channel.targets.empty()) {
    WriteTarget& each = channel.targets.front();
    receives_.fail(each.delivery, each.envelope, error, error);
    release(each);
  }
  for (auto it = channel.flight.begin(); it != channel.flight.end();) {
    Transmit& each = *it;
    ++it;
    if (each.error == 0) each.error = error;
    if (each.outstanding == 0) finish(each);
  }
}

// A context closes: the memory of what it has under way is about to go, so the connections that carry that end.
void Endpoint::abandon(CompletionRoutes& routes) noexcept {
  peers_.for_each([&](Peer& peer) {
    for (auto it = peer.waiting.begin(); it != peer.waiting.end();) {
      Transmit& each = *it;
      ++it;
      if (each.routes != &routes || each.channel != nullptr) continue;
      each.error = FI_ECANCELED;
      finish(each);
    }
  });
  for (auto it = channels_.begin(); it != channels_.end();) {
    Channel& channel = *it;
    ++it;
    bool carries = false;
    for (Transmit& each : channel.flight) carries |= each.routes == &routes;
    if (!carries) continue;
    Peer& peer = *channel.peer;
    const bool ours = peer.channel == &channel;
    close_channel(channel, FI_ECANCELED);
    if (ours) reconnect(peer);
  }
  read_completions();
  // What the lower provider has not returned ends here; its own end is nobody's.
  for (Channel& channel : dying_)
    for (Transmit& each : channel.flight) {
      if (each.routes != &routes) continue;
      routes.transmit_failed(each.completion_flags, each.context, FI_ECANCELED, FI_ECANCELED);
      each.routes = &routes_;
    }
}

void Endpoint::reap() noexcept {
  for (auto it = dying_.begin(); it != dying_.end();) {
    Channel& channel = *it;
    ++it;
    if (channel.works == 0) delete &channel;
  }
}

// `sentence`: for who had not reached the peer.
void Endpoint::fail_waiting(Peer& peer, int error, std::string_view sentence) noexcept {
  static_cast<ListHook<Peer>&>(peer).unlink();
  peer.deadline = peer.retry_at = Deadline();
  while (!peer.waiting.empty()) {
    Transmit& transmit = peer.waiting.pop_front();
    if (transmit.error == 0) transmit.error = error;
    if (transmit.outstanding == 0) finish(transmit, transmit.channel == nullptr ? sentence : std::string_view());
  }
}

Deadline Endpoint::next_deadline() noexcept {
  Deadline next = idle_check_;
  for (Peer& peer : connecting_) {
    next = std::min(next, peer.deadline);
    if (peer.channel == nullptr) next = std::min(next, peer.retry_at);
  }
  return next;
}

void Endpoint::check_deadlines() noexcept {
  for (auto it = connecting_.begin(); it != connecting_.end();) {
    Peer& peer = *it;
    ++it;
    if (peer.deadline.expired()) {
      const std::string sentence =
          connect_failure(FI_ETIMEDOUT, nullptr, phase_name(peer.channel), own_, peer.address,
                          Clock::now() - peer.deadline.time() + std::chrono::milliseconds(connect_timeout_ms_));
      FI_WARN(&provider(), FI_LOG_EP_CTRL, "%s\n", sentence.c_str());
      if (peer.channel != nullptr) close_channel(*peer.channel, FI_ETIMEDOUT);
      fail_waiting(peer, FI_ETIMEDOUT, sentence);
    } else if (peer.channel == nullptr && peer.retry_at.expired()) {
      connect_or_fail(peer);
    }
  }
}

void Endpoint::progress_connections() noexcept {
  polls_ = 0;
  looked_at_connections_ = Clock::now();
  alignas(fi_eq_cm_entry) std::byte bytes[kEventBytes];
  for (int i = 0; i < kMaxEvents; ++i) {
    uint32_t event = 0;
    const ssize_t got = fi_eq_read(lower_eq_.get(), &event, bytes, sizeof bytes, 0);
    if (got == -FI_EAVAIL) {
      on_event_error();
    } else if (got >= static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) {
      on_event(event, *reinterpret_cast<const fi_eq_cm_entry*>(bytes),
               static_cast<std::size_t>(got) - sizeof(fi_eq_cm_entry));
    } else {
      break;
    }
  }
  check_deadlines();
  if (idle_timeout_ != Clock::duration::zero()) check_idle();
}

void Endpoint::on_event(uint32_t event, const fi_eq_cm_entry& entry, std::size_t data_len) noexcept {
  if (event == FI_CONNREQ) {
    on_request(entry.info, entry.data, data_len);
    return fi_freeinfo(entry.info);
  }
  Channel* channel = channel_of(entry.fid);
  if (channel == nullptr) return;
  if (event == FI_CONNECTED) return on_connected(*channel, entry.data, data_len);
  if (event != FI_SHUTDOWN) return;
  read_last_words(*channel);
  if (channel->state == Channel::State::kClosed) return;
  Peer& peer = *channel->peer;
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s closed its connection\n", peer.address.to_string().c_str());
  end_channel(*channel, FI_ECONNRESET);
}

// Whose end nobody had agreed to fails what waits for the peer as well; else it goes over another one.
void Endpoint::end_channel(Channel& channel, int error, std::string_view sentence) noexcept {
  Peer& peer = *channel.peer;
  const bool ours = peer.channel == &channel, idle = channel.farewell.holds();
  close_channel(channel, error);
  if (!ours) return;
  if (idle)
    reconnect(peer);
  else
    fail_waiting(peer, error, sentence);
}

// What waits for the peer goes over another connection.
void Endpoint::reconnect(Peer& peer) noexcept {
  if (!peer.waiting.empty()) connect_or_fail(peer);
}

void Endpoint::connect_or_fail(Peer& peer) noexcept {
  const Status status = connect(peer);
  if (status.ok()) return;
  fail_waiting(peer, status.error(),
               connect_failure(status.error(), nullptr, "opening a connection", own_, peer.address, {}));
}

void Endpoint::on_event_error() noexcept {
  fi_eq_err_entry error{};
  if (fi_eq_readerr(lower_eq_.get(), &error, 0) <= 0) return;
  Channel* channel = channel_of(error.fid);
  if (channel == nullptr) return;
  Peer& peer = *channel->peer;
  RejectData said;
  if (channel->state == Channel::State::kConnecting && error.err_data_size >= sizeof said) {
    std::memcpy(&said, error.err_data, sizeof said);
    if (said.version == kCmVersion && said.reason == Reason::kAlready) {
      // The peer's own request is on its way to us; if it is lost, ours is repeated.
      FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s says that its request crossed ours, which gives way\n",
              peer.address.to_string().c_str());
      close_channel(*channel, FI_EALREADY);
      peer.retry_at = Deadline(Clock::now() + kAlreadyPatience);
      return;
    }
  }
  char text[256];
  fi_eq_strerror(lower_eq_.get(), error.prov_errno, error.err_data, text, sizeof text);
  FI_WARN(&provider(), FI_LOG_EP_CTRL, "connection with %s: %s\n", peer.address.to_string().c_str(), text);
  read_last_words(*channel);
  if (channel->state != Channel::State::kClosed) end_channel(*channel, error.err, text);
}

void Endpoint::on_connected(Channel& channel, const void* data, std::size_t len) noexcept {
  Peer& peer = *channel.peer;
  if (channel.state == Channel::State::kConnecting) {
    AcceptData accepted;
    if (len < sizeof accepted) {
      protocol_error(channel, "a peer accepted without saying who it is");
      return;
    }
    std::memcpy(&accepted, data, sizeof accepted);
    channel.remote_id = accepted.id;
    peer.process = process_of(accepted.id);
    if (const auto offer = direct_offer(data, len, sizeof accepted)) {
      channel.direct.accept(*offer);
      mark_lane(channel);
    }
    if (offers_to_close(data, len, sizeof accepted)) channel.farewell.allow(idle_timeout_, Clock::now());
  }
  channel.state = Channel::State::kOpen;
  if (channel.stalls()) stall(channel);
  if (channel.twin) return;
  static_cast<ListHook<Peer>&>(peer).unlink();
  peer.deadline = peer.retry_at = Deadline();
  flush(peer);
}

void Endpoint::reject(fi_info* info, std::uint8_t reason) noexcept {
  RejectData data;
  data.reason = static_cast<Reason>(reason);
  fi_reject(listener_.get(), info->handle, &data, sizeof data);
}

void Endpoint::on_request(fi_info* info, const void* data, std::size_t len) noexcept {
  ConnectData said;
  auto from = Address::from(info->dest_addr, info->dest_addrlen);
  const bool understood = from && len >= sizeof said;
  if (understood) std::memcpy(&said, data, sizeof said);
  if (!understood || said.version != kCmVersion || said.byte_order != kByteOrder ||
      said.control_version != kControlVersion || said.op_version != kOpVersion || said.eager_limit != eager_limit_) {
    FI_WARN(
        &provider(), FI_LOG_EP_CTRL,
        "a request for a connection is turned down: it speaks another version, or FI_OFI_RXM_BUFFER_SIZE differs\n");
    return reject(info, static_cast<std::uint8_t>(Reason::kRefused));
  }
  from->set_port(said.port);
  const std::uint32_t process = process_of(said.id);
  const auto remote_id = said.id & 0xffff'ffff;
  Peer* peer = peers_.at(*from);
  if (peer == nullptr) return reject(info, static_cast<std::uint8_t>(Reason::kRefused));
  Address own = own_;
  if (own.is_any())
    if (auto local = Address::from(info->src_addr, info->src_addrlen)) {
      own = *local;
      own.set_port(own_.port());
    }
  if (*from == own) {
    if (peer->twin != nullptr) return reject(info, static_cast<std::uint8_t>(Reason::kAlready));
    return accept(*peer, info, remote_id, true, direct_offer(data, len, sizeof said), false);
  }
  // Who asks again has closed the connection that both ends had agreed to close.
  if (peer->channel != nullptr && peer->channel->farewell.agreed()) close_channel(*peer->channel, FI_ECANCELED);
  if (Channel* current = peer->channel; current != nullptr) {
    const bool connecting = current->state == Channel::State::kConnecting;
    // A request of the process that we are connected with, or of one that did not say who it is, crossed ours.
    const bool stays = connecting ? *from < own : peer->process == 0 || peer->process == process;
    if (connecting || stays)
      FI_INFO(&provider(), FI_LOG_EP_CTRL, "the request of %s crossed ours, which %s\n", from->to_string().c_str(),
              stays ? "goes on" : "gives way");
    if (stays) return reject(info, static_cast<std::uint8_t>(Reason::kAlready));
    // A peer that started again: what went on with its former life is over.
    close_channel(*current, connecting ? FI_EALREADY : FI_ECONNRESET);
  }
  peer->process = process;
  accept(*peer, info, remote_id, false, direct_offer(data, len, sizeof said), offers_to_close(data, len, sizeof said));
}

void Endpoint::accept(Peer& peer, fi_info* info, std::uint64_t remote_id, bool twin,
                      const std::optional<DirectOffer>& offer, bool closes) noexcept {
  Channel* channel = open_channel(peer, info);
  if (channel == nullptr) return;  // and with it the request
  channel->state = Channel::State::kAccepting;
  channel->remote_id = remote_id;
  channel->twin = twin;
  Introduction<AcceptData> said;
  said.data.id = number_for(*channel);
  said.data.receive_size = kReceivesPerChannel;
  std::size_t len = sizeof said.data;
  if (offer) {
    channel->direct.accept(*offer);
    len += offer_direct_reads(*channel, said.offer);
    mark_lane(*channel);
  }
  if (closes) {
    len = offer_to_close(reinterpret_cast<std::byte*>(&said), len);
    channel->farewell.allow(idle_timeout_, Clock::now());
  }
  if (const int error = fi_accept(channel->ep, &said, len); error != 0) {
    close_channel(*channel, -error);
    if (!twin && !peer.waiting.empty()) peer.retry_at = Deadline(Clock::now());
    return;
  }
  (twin ? peer.twin : peer.channel) = channel;
  if (twin || static_cast<ListHook<Peer>&>(peer).linked()) return;
  peer.deadline = Deadline::in_ms(connect_timeout_ms_);
  connecting_.push_back(peer);
}

}  // namespace weft::rxm
