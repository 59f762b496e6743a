// SPDX-License-Identifier: BSD-2-Clause
// A connection between two ends of reliable datagrams; see channel.h.
#include "tcp/reliable/channel.h"

#include <rdma/fi_errno.h>

#include <utility>

#include "objects/sentence.h"
#include "tcp/names.h"
#include "tcp/reliable/endpoint.h"
#include "tcp/socket.h"

namespace weft::tcp {

Peer::Peer() noexcept
    : LinkedPeer([](PeerMemory& memory) noexcept {
        auto& peer = static_cast<Peer&>(memory);
        for (Channel* each : {peer.channel, peer.beside})
          if (each != nullptr) each->on_room();
      }) {}

void Peer::on_timer() noexcept {
  endpoint->on_peer_timer(*this);
}

Channel::Channel(ReliableEndpoint& endpoint, Peer& peer) noexcept
    : endpoint_(endpoint),
      peer_(peer),
      stream_(*this, endpoint.routes(), endpoint.engine(), endpoint.domain().regions(),
              endpoint.domain().parts().pools.transmits) {
  stream_.set_queue_size(endpoint.tx_size());
  ++peer.channels;
}

Channel::~Channel() {
  --peer_.channels;
}

fi_addr_t Channel::source() noexcept {
  return endpoint_.name_of(peer_);
}

LocalHost& Channel::local_host() noexcept {
  return endpoint_.domain().parts().local_host;
}

// ---- Handshake ----

Channel::OwnHandshake::OwnHandshake(Channel& owner, UniqueFd opened) noexcept
    : Handshake([](Watch& watch) noexcept { static_cast<OwnHandshake&>(watch).channel.proceed(); },
                [](Watch& watch) noexcept {
                  Channel& late = static_cast<OwnHandshake&>(watch).channel;
                  late.endpoint_.on_unreachable(late, FI_ETIMEDOUT, nullptr);
                },
                owner.endpoint_.engine(), std::move(opened), owner.endpoint_.parameters(), owner.peer_.deadline,
                owner.endpoint_.parameters().answer_timeout_ms),
      channel(owner) {}

Status Channel::connect(const Address& own, UniqueFd socket) noexcept {
  handshake_.reset(new (std::nothrow) OwnHandshake(*this, std::move(socket)));
  if (handshake_ == nullptr) return Status(-FI_ENOMEM);
  Greeting greeting = Greeting::of(own.port(), endpoint_.process());
  greeting.features = features();
  if (own.is_any()) greeting.features |= kEverywhere;
  handshake_->message.compose(CmType::kRequest, &greeting, sizeof greeting);
  // A handshake that fails at once is reported to the endpoint by the handler, when the caller is done with the
  // channel.
  endpoint_.engine().make_ready(*handshake_);
  return Status();
}

std::string Channel::failure(int error, const char* why) const noexcept {
  const OwnHandshake& handshake = *handshake_;
  const Address from = name_of(handshake.socket.get(), endpoint_.own());
  return connect_failure(error, why, handshake.phase_name(), from, peer_.address, net::now() - handshake.started_at);
}

void Channel::proceed() noexcept {
  using Step = Handshake::Step;
  Step step = handshake_->proceed(peer_.address);
  if (step == Step::kConnected) step = handshake_->send_message();
  if (step == Step::kSent) {
    endpoint_.domain().parts().spare_socket.refill();
    step = handshake_->await_answer();
  }
  if (step == Step::kAnswered) return on_answer();
  if (step == Step::kFailed) endpoint_.on_unreachable(*this, handshake_->error, handshake_->why);
}

void Channel::on_answer() noexcept {
  CmMessage& message = handshake_->message;
  Greeting greeting;
  if (message.type() == CmType::kReject) {
    // libfabric sends the request's data back.
    if (message.data().empty() || greeting.read(message.data())) return endpoint_.on_refused(*this);
    return endpoint_.on_unreachable(*this, FI_EREMOTEIO,
                                    "the peer's rejection is not one of tcp's reliable datagrams; it may use ofi_rxm");
  }
  if (message.type() != CmType::kAccept || !greeting.read(message.data()))
    return endpoint_.on_unreachable(*this, FI_EREMOTEIO, "the peer's acceptance is not one for reliable datagrams");
  peer_.process = ntohl(greeting.process);
  agree(message, true);
  const std::unique_ptr<OwnHandshake> done = std::move(handshake_);
  const auto theirs = static_cast<std::uint8_t>(greeting.features >> 1);
  start(done->take_socket(), message.swapped(), agree_on(greeting.answered(), theirs, message.swapped()), done.get());
  stream_.look_after_peer(endpoint_.parameters().keepalive_s, false);
  endpoint_.on_open(*this);
}

std::uint8_t Channel::features() const noexcept {
  return endpoint_.closes_idle(peer_) ? kHasAtomics | kHasNumbers | kCloses : kHasAtomics | kHasNumbers;
}

// Elements of atomic operations are not converted to another byte order.
Agreement Channel::agree_on(std::uint8_t version, std::uint8_t theirs, bool swapped) const noexcept {
  const int both = features() & theirs & ~(swapped ? kHasAtomics : 0);
  return {.version = version, .features = static_cast<std::uint8_t>(both)};
}

void Channel::agree(const CmMessage& theirs, bool active) noexcept {
  if (theirs.announced(Extension::kRefusals)) stream_.enable_refusals();
  if (theirs.announced(Extension::kLocalWire) && endpoint_.shares_memory() && endpoint_.parameters().shared_memory)
    stream_.allow_wire(active);
}

void Channel::start(UniqueFd socket, bool swap_bytes, const Agreement& agreement, Watch* handshake) noexcept {
  if (agreement.has(kCloses)) idle_close_.allow(endpoint_.idle_timeout(), net::now());
  if (agreement.has(kHasAtomics)) stream_.enable_atomics();
  has_numbers_ = agreement.has(kHasNumbers);
  if (has_numbers_) peer_.follows();
  if (agreement.version >= 1) stream_.enable_announcements(has_numbers_ ? &peer_.copies : nullptr);
  stream_.start(std::move(socket), swap_bytes, handshake);
}

void Channel::on_stream_end(int error) noexcept {
  endpoint_.on_channel_end(*this, error);
}

// ---- Messages that arrive ----

rdm::Envelope Channel::envelope_of(const DataHeader& header, std::size_t len) noexcept {
  const bool tagged = header.is_tagged();
  return {.source = peer_.id,
          .tag = tagged ? header.tag : 0,
          .data = header.cq_data,
          .len = len,
          .name = source(),
          .tagged = tagged,
          .has_data = header.has_cq_data(),
          .context = endpoint_.receives().has_contexts() ? header.receive_context() : std::uint8_t{0}};
}

bool Channel::check_context(const DataHeader& header) noexcept {
  if (endpoint_.receives().takes(header.receive_context())) return true;
  stream_.protocol_error("message for a nonexistent receive context");
  return false;
}

// The payload comes next and goes to `delivery`; if that is empty, it is discarded.
MessageSink::Destination Channel::receive(const rdm::Delivery& delivery, const rdm::Envelope& envelope,
                                          bool acknowledge) noexcept {
  delivery_ = delivery;
  envelope_ = envelope;
  return {delivery_ ? delivery_.iov() : std::span<const iovec>(), acknowledge};
}

std::optional<MessageSink::Destination> Channel::begin(const DataHeader& header) noexcept {
  ++arrived_count_;
  if (header.op == Op::kAnnounced) return begin_announced(header);
  if (blocked_ != nullptr) return continue_blocked(header);
  if (!check_context(header)) return {};
  const rdm::Envelope envelope = envelope_of(header, header.payload);
  const rdm::Delivery delivery = endpoint_.receives().match(envelope);
  return delivery ? receive(delivery, envelope, header.wants_ack()) : begin_unclaimed(header);
}

bool Channel::take_whole(bool tagged, std::uint64_t tag, std::span<const std::byte> payload) noexcept {
  if (blocked_ != nullptr) return false;
  const rdm::Envelope envelope{
      .source = peer_.id, .tag = tag, .len = payload.size(), .name = source(), .tagged = tagged};
  if (!endpoint_.receives().deliver(payload, envelope)) return false;
  ++arrived_count_;
  return true;
}

std::optional<MessageSink::Destination> Channel::begin_unclaimed(const DataHeader& header) noexcept {
  blocked_ = make(Unclaimed::Where::kInSocket, header, envelope_of(header, header.payload));
  if (blocked_ == nullptr) return {};
  keep(*blocked_);
  return continue_blocked(header);
}

// A message whose payload has not arrived. nullptr: memory has run out; each round tries again.
Unclaimed* Channel::make(Unclaimed::Where where, const DataHeader& header, const rdm::Envelope& envelope) noexcept {
  auto* message = new (std::nothrow) Unclaimed;
  if (message == nullptr) {
    stream_.resume();
    return nullptr;
  }
  message->where = where;
  message->channel = this;
  message->envelope = envelope;
  message->ticket = header.op_data;
  message->number = header.number;
  message->wants_ack = header.wants_ack();
  message->set_peer(peer_);
  message->charge(peer_, sizeof *message);
  return message;
}

// The message has no receive.
void Channel::keep(Unclaimed& message) noexcept {
  endpoint_.receives().keep(message);
  messages_.push_back(message);
  if (peer_.is_scarce()) [[unlikely]]
    report_scarcity(true);
}

// Requests the peer to announce short messages, or to send them without announcements again.
void Channel::report_scarcity(bool scarce) noexcept {
  DataHeader report;
  report.op = Op::kScarce;
  report.op_data = scarce ? 1 : 0;
  if (has_numbers_ && scarce_ != scarce && stream_.try_respond(report)) scarce_ = scarce;
}

void Channel::on_room() noexcept {
  report_scarcity(false);
  stream_.resume();
}

// nullopt: the message stays in the socket.
std::optional<MessageSink::Destination> Channel::continue_blocked(const DataHeader& header) noexcept {
  Unclaimed& message = *blocked_;
  if (message.taken) {
    blocked_ = nullptr;
    const Destination destination = receive(message.taker, message.envelope, header.wants_ack());
    delete &message;
    return destination;
  }
  if (grace_.may_wait(header.payload, endpoint_.engine().round())) {
    stream_.resume();
    return {};
  }
  if (!store(message)) return {};
  blocked_ = nullptr;
  arriving_ = &message;
  message.place = {message.payload.get(), message.envelope.len};
  return Destination{{&message.place, 1}, header.wants_ack()};
}

bool Channel::store(Unclaimed& message) noexcept {
  const std::size_t len = message.envelope.len;
  if (!peer_.has_room(len)) return false;
  message.payload.reset(new (std::nothrow) std::byte[len]);
  if (message.payload == nullptr) {
    stream_.resume();
    return false;
  }
  message.charge(peer_, len);
  message.where = Unclaimed::Where::kArriving;
  return true;
}

void Channel::finish(const DataHeader&) noexcept {
  if (arriving_ == nullptr) {
    if (const rdm::Delivery delivery = std::exchange(delivery_, {})) endpoint_.receives().complete(delivery, envelope_);
    return;
  }
  Unclaimed& message = *std::exchange(arriving_, nullptr);
  message.ListHook<Unclaimed>::unlink();
  message.where = Unclaimed::Where::kHere;
  if (message.taker)
    endpoint_.take(message, message.taker);
  else if (message.taken)
    endpoint_.discard(message);
}

// False when memory runs out, or the peer has reached its limit.
bool Channel::on_announcement(const DataHeader& header) noexcept {
  if (!check_context(header)) return true;
  const bool ticketed = header.op_data != 0;
  if (ticketed && announced_[header.op_data]) {
    stream_.protocol_error("announcement with a ticket that is in use");
    return true;
  }
  Unclaimed* const message = make(Unclaimed::Where::kAtSender, header, envelope_of(header, header.announced));
  if (message == nullptr) return false;
  const rdm::Delivery delivery = endpoint_.receives().match(message->envelope);
  if (!delivery && !ticketed && !peer_.has_room(0)) {
    delete message;
    return false;
  }
  announced_.set(header.op_data);
  delivery ? clear(*message, delivery) : keep(*message);
  return true;
}

std::optional<MessageSink::Destination> Channel::begin_announced(const DataHeader& header) noexcept {
  std::unique_ptr<Unclaimed> cleared;
  for (Unclaimed& each : cleared_)  // nearly always the first one
    if (each.ticket == header.op_data && each.number == header.number) {
      cleared.reset(&each);
      break;
    }
  if (cleared == nullptr) {
    stream_.protocol_error("announced message without a clearance");
    return {};
  }
  cleared->ListHook<Unclaimed>::unlink();
  announced_.reset(cleared->ticket);
  if (cleared->envelope.len != header.payload) {
    if (cleared->taker) endpoint_.receives().fail(cleared->taker, cleared->envelope, EPROTO, EPROTO);
    stream_.protocol_error("announced message of a wrong length");
    return {};
  }
  return receive(cleared->taker, cleared->envelope, cleared->wants_ack || header.wants_ack());
}

// Lets the peer send an announced message. Discarded messages are sent too: their sender must not wait for ever.
void Channel::clear(Unclaimed& message, const rdm::Delivery& delivery) noexcept {
  message.taker = delivery;
  message.ListHook<Unclaimed>::unlink();
  cleared_.push_back(message);
  DataHeader clearance;
  clearance.op = Op::kClearance;
  clearance.op_data = message.ticket;
  clearance.number = message.number;
  stream_.send_control(clearance);
}

void Channel::abandon(int error, int) noexcept {
  rdm::ReceiveSide& receives = endpoint_.receives();
  if (const rdm::Delivery delivery = std::exchange(delivery_, {})) receives.fail(delivery, envelope_, error, error);
  arriving_ = blocked_ = nullptr;
  while (!messages_.empty()) {
    Unclaimed& message = messages_.pop_front();
    message.dead = true;
    message.channel = nullptr;
    if (message.taker)
      endpoint_.take(message, message.taker);
    else if (message.taken)
      delete &message;
    else if (!peer_.has_room(0)) {  // a peer that reconnects repeatedly could fill memory
      receives.drop(message);
      delete &message;
    }
  }
  while (!cleared_.empty()) {
    const std::unique_ptr<Unclaimed> each(&cleared_.pop_front());
    if (each->taker) receives.fail(each->taker, each->envelope, error, error);
  }
}

void Channel::discard_for(const rdm::ReceiveSide& context) noexcept {
  rdm::ReceiveSide& receives = endpoint_.receives();
  const auto cancel = [&](rdm::Delivery& delivery, const rdm::Envelope& envelope) {
    const bool there = receives.meets_at(context, delivery, envelope);
    if (there) receives.fail(std::exchange(delivery, {}), envelope, FI_ECANCELED, FI_ECANCELED);
    return there;
  };
  if (cancel(delivery_, envelope_)) stream_.discard_rest();
  for (List<Unclaimed>* list : {&messages_, &cleared_})
    for (Unclaimed& each : *list) cancel(each.taker, each.envelope);
}

// ---- Unexpected messages that a receive takes ----

void Channel::take(Unclaimed& message, const rdm::Delivery& delivery) noexcept {
  if (message.where == Unclaimed::Where::kAtSender) {
    clear(message, delivery);
  } else {
    message.taker = delivery;
    message.taken = true;
    if (blocked_ != &message) return;
    grace_.restart();
    stream_.resume();
  }
}

// ---- Closing while idle ----

bool Channel::quiet() noexcept {
  return stream_.quiet() && messages_.empty() && cleared_.empty() && !delivery_ && arriving_ == nullptr &&
         blocked_ == nullptr && peer_.waiting.empty();
}

void Channel::send(rdm::IdleCloseMessage message) noexcept {
  DataHeader header;
  header.op = Op::kIdleClose;
  header.op_data = static_cast<std::uint8_t>(message);
  stream_.send_control(header);
}

bool Channel::on_control(const DataHeader& header) noexcept {
  if (header.op != Op::kIdleClose) {
    ++arrived_count_;
    return on_announcement(header);
  }
  on_idle_close(static_cast<rdm::IdleCloseMessage>(header.op_data));
  return true;
}

void Channel::on_idle_close(rdm::IdleCloseMessage received) noexcept {
  using Action = rdm::IdleClose::Action;
  const Action action = idle_close_.on_message(received, activity(), quiet(), net::now());
  if (action == Action::kSendAgree) send(rdm::IdleCloseMessage::kAgree);
  if (action == Action::kSendDecline) send(rdm::IdleCloseMessage::kDecline);
  if (action == Action::kClose) endpoint_.on_idle(*this);
  if (action == Action::kResume) endpoint_.on_open(*this);
  if (action == Action::kProtocolError) stream_.protocol_error("idle-close message out of order");
}

}  // namespace weft::tcp
