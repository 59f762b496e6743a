// SPDX-License-Identifier: BSD-2-Clause
// A connection between two ends of reliable datagrams; see reliable_channel.h.
#include "tcp/reliable_channel.h"

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <new>
#include <utility>

#include "objects/connect_failure.h"
#include "tcp/names.h"
#include "tcp/provider.h"
#include "tcp/reliable_endpoint.h"
#include "tcp/reliable_greeting.h"
#include "tcp/socket.h"

namespace weft::tcp {

Peer::Timer::Timer(Peer& owner) noexcept
    : Watch([](Watch&) noexcept {},
            [](Watch& watch) noexcept {
              Peer& late = static_cast<Timer&>(watch).peer;
              late.endpoint->on_peer_timer(late);
            }),
      peer(owner) {}

Peer::Peer() noexcept : timer(*this) {}

Channel::Channel(ReliableEndpoint& endpoint, Peer& peer) noexcept
    : endpoint_(endpoint),
      peer_(peer),
      stream_(*this, endpoint.routes(), endpoint.engine(), endpoint.domain().regions(), endpoint.domain().pools()) {
  stream_.set_queue_size(endpoint.queue_size());
}

Channel::~Channel() = default;

fi_addr_t Channel::name() noexcept {
  return endpoint_.name_of(peer_);
}

// ---- The way to it ----

Channel::Asking::Asking(Channel& owner, UniqueFd opened, int timeout_ms) noexcept
    : Handshake([](Watch& watch) noexcept { static_cast<Asking&>(watch).channel.proceed(); },
                [](Watch& watch) noexcept {
                  Channel& late = static_cast<Asking&>(watch).channel;
                  late.endpoint_.on_unreachable(late, FI_ETIMEDOUT, nullptr);
                },
                owner.endpoint_.engine(), std::move(opened), owner.endpoint_.parameters(), timeout_ms),
      channel(owner) {}

Status Channel::ask(const Address& own, UniqueFd socket, int timeout_ms) noexcept {
  asking_.reset(new (std::nothrow) Asking(*this, std::move(socket), timeout_ms));
  if (asking_ == nullptr) return Status(-FI_ENOMEM);
  Greeting greeting = Greeting::of(own.port(), endpoint_.process());
  greeting.features |= kAskerHasAtomics;
  if (endpoint_.closes_idle(peer_)) greeting.features |= kAskerCloses;
  asking_->message.compose(CmType::kRequest, &greeting, sizeof greeting);
  // Its end may be known at once; the endpoint hears of it when the caller is done with the channel.
  endpoint_.engine().make_ready(*asking_);
  return Status();
}

std::string Channel::failure(int error, const char* why) const noexcept {
  const Asking& asking = *asking_;
  const char* phase = asking.sent ? "waiting for the answer" : asking.connected ? "sending the request" : "connecting";
  const Address from = name_of(asking.socket.get(), endpoint_.own());
  return connect_failure(error, why, phase, from, peer_.address, net::now() - asking.started_at);
}

void Channel::proceed() noexcept {
  Asking& asking = *asking_;
  if (!asking.connected)
    settle(asking.dial(peer_.address));
  else if (!asking.sent)
    settle(asking.send_message());
  else
    settle(asking.receive_answer());
}

void Channel::settle(Handshake::Step step) noexcept {
  switch (step) {
    case Handshake::Step::kWaiting:
      return;
    case Handshake::Step::kConnected:
      asking_->connected = true;
      return settle(asking_->send_message());
    case Handshake::Step::kSent:
      asking_->sent = true;
      endpoint_.domain().spare_socket().refill();
      return settle(asking_->await_answer());
    case Handshake::Step::kAnswered:
      return on_answer();
    case Handshake::Step::kFailed:
      return endpoint_.on_unreachable(*this, asking_->error, asking_->why);
  }
}

void Channel::on_answer() noexcept {
  CmMessage& message = asking_->message;
  if (message.type() == CmType::kReject) return endpoint_.on_refused(*this);
  Greeting greeting;
  if (message.type() != CmType::kAccept || !greeting.read(message.data()))
    return endpoint_.on_unreachable(*this, FI_EREMOTEIO, "the peer accepted without saying who it is");
  peer_.process = ntohl(greeting.process);
  const std::unique_ptr<Asking> done = std::move(asking_);
  const std::uint8_t version = greeting.answered();
  const Agreement agreement{
      .version = version,
      .closes = endpoint_.closes_idle(peer_) && (greeting.features & kAnswererCloses) != 0,
      .atomics = version >= 1 && !message.swapped() && (greeting.features & kAnswererHasAtomics) != 0};
  start(std::move(done->socket), message.swapped(), agreement, done.get());
  stream_.ask_when_silent(endpoint_.parameters().keepalive_s);
  endpoint_.on_open(*this);
}

void Channel::start(UniqueFd socket, bool swap_bytes, const Agreement& agreement, Watch* handshake) noexcept {
  if (agreement.closes) farewell_.allow(endpoint_.idle_timeout(), net::now());
  has_atomics_ = agreement.atomics;
  if (agreement.version >= 1) tickets_.reset(new (std::nothrow) bool[kTickets]());
  announces_ = tickets_ != nullptr;
  stream_.start(std::move(socket), swap_bytes, {}, handshake);
}

void Channel::close(int reason) noexcept {
  asking_.reset();
  stream_.stop(0, reason);
}

void Channel::on_stream_end(int error) noexcept {
  endpoint_.on_channel_end(*this, error);
}

// ---- Messages that arrive ----

rdm::Envelope Channel::envelope_of(const DataHeader& header, std::size_t len) noexcept {
  const bool tagged = header.has_tag();
  return {.source = peer_.id,
          .tag = tagged ? header.tag : 0,
          .data = header.cq_data,
          .len = len,
          .name = name(),
          .tagged = tagged,
          .has_data = header.has_cq_data(),
          .context = endpoint_.receives().has_contexts() ? header.receive_context() : std::uint8_t{0}};
}

bool Channel::names_context(const DataHeader& header) noexcept {
  if (endpoint_.receives().takes(header.receive_context())) return true;
  stream_.protocol_error("a message for a receive context that there is not");
  return false;
}

// The payload comes next and belongs to `delivery`, or nowhere.
void Channel::receive(const rdm::Delivery& delivery, const rdm::Envelope& envelope, const DataHeader& header) noexcept {
  delivery_ = delivery;
  envelope_ = envelope;
  if (header.wants_ack()) stream_.ack_sequence_ = stream_.owe_ack();
  stream_.set_sink(Stream::Sink::kChannel, delivery_ ? delivery_.iov() : std::span<const iovec>());
}

bool Channel::begin_message(const DataHeader& header) noexcept {
  ++arrived_count_;
  if (blocked_ != nullptr) return go_on_with_blocked(header);
  if (!names_context(header)) return false;
  const rdm::Envelope envelope = envelope_of(header, header.payload);
  const rdm::Delivery delivery = endpoint_.receives().match(envelope);
  if (!delivery) return begin_unclaimed(header);
  receive(delivery, envelope, header);
  return true;
}

bool Channel::take_whole(bool tagged, std::uint64_t tag, std::span<const std::byte> payload) noexcept {
  if (blocked_ != nullptr) return false;
  const rdm::Envelope envelope{.source = peer_.id, .tag = tag, .len = payload.size(), .name = name(), .tagged = tagged};
  const rdm::Delivery delivery = endpoint_.receives().match(envelope);
  if (!delivery) return false;
  ++arrived_count_;
  rdm::scatter(delivery.iov(), 0, payload.data(), std::min(payload.size(), delivery.capacity()));
  endpoint_.receives().complete(delivery, envelope);
  return true;
}

bool Channel::begin_unclaimed(const DataHeader& header) noexcept {
  std::unique_ptr<Unclaimed> message(new (std::nothrow) Unclaimed);
  if (message == nullptr) return out_of_memory(), false;
  message->where = Unclaimed::Where::kInSocket;
  message->channel = this;
  message->envelope = envelope_of(header, header.payload);
  message->kept = sizeof *message;
  if (!endpoint_.receives().keep(*message)) return out_of_memory(), false;
  blocked_ = message.release();
  messages_.push_back(*blocked_);
  return go_on_with_blocked(header);
}

// False: it stays in the socket.
bool Channel::go_on_with_blocked(const DataHeader& header) noexcept {
  Unclaimed& message = *blocked_;
  if (message.taken) {
    blocked_ = nullptr;
    receive(message.taker, message.envelope, header);
    delete &message;
    return true;
  }
  if (!store(message)) {
    if (!ListHook<CrowdedTag>::linked()) endpoint_.crowded().push_back(*this);
    return false;
  }
  blocked_ = nullptr;
  arriving_ = &message;
  if (header.wants_ack()) stream_.ack_sequence_ = stream_.owe_ack();
  const iovec iov{message.payload.get(), message.envelope.len};
  stream_.set_sink(Stream::Sink::kChannel, {&iov, 1});
  return true;
}

bool Channel::store(Unclaimed& message) noexcept {
  const std::size_t len = message.envelope.len;
  if (!endpoint_.may_keep(len)) return false;
  message.payload.reset(new (std::nothrow) std::byte[len]);
  if (message.payload == nullptr) return false;
  endpoint_.receives().grow(message, len);
  message.where = Unclaimed::Where::kArriving;
  return true;
}

void Channel::finish_message() noexcept {
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

void Channel::begin_announced(const DataHeader& header) noexcept {
  ++arrived_count_;
  if (header.op == Op::kAnnouncement) {
    stream_.set_sink(Stream::Sink::kNone, {});
    if (!names_context(header)) return;
    const rdm::Envelope envelope = envelope_of(header, header.announced);
    if (const rdm::Delivery delivery = endpoint_.receives().match(envelope))
      return clear(header.op_data, header.wants_ack(), delivery, envelope);
    std::unique_ptr<Unclaimed> message(new (std::nothrow) Unclaimed);
    if (message == nullptr) return out_of_memory();
    message->where = Unclaimed::Where::kAtSender;
    message->channel = this;
    message->envelope = envelope;
    message->ticket = header.op_data;
    message->wants_ack = header.wants_ack();
    message->kept = sizeof *message;
    if (!endpoint_.receives().keep(*message)) return out_of_memory();
    return messages_.push_back(*message.release());
  }
  const auto found = std::find_if(cleared_.begin(), cleared_.end(),
                                  [&](const Cleared& each) { return each.ticket == header.op_data; });
  if (found == cleared_.end()) return stream_.protocol_error("a message that nobody asked for");
  const Cleared cleared = *found;
  cleared_.erase(found);
  if (cleared.envelope.len != header.payload) {
    if (cleared.delivery) endpoint_.receives().fail(cleared.delivery, cleared.envelope, EPROTO, EPROTO);
    return stream_.protocol_error("a message of another length than it was announced with");
  }
  if (cleared.wants_ack) stream_.header_.flags |= kFlagDeliveryComplete;
  receive(cleared.delivery, cleared.envelope, stream_.header_);
}

// Lets the peer send what it announced. Also what nobody wants is sent: its sender shall not wait for ever.
void Channel::clear(std::uint8_t ticket, bool wants_ack, const rdm::Delivery& delivery,
                    const rdm::Envelope& envelope) noexcept {
  try {
    cleared_.push_back({ticket, wants_ack, delivery, envelope});
  } catch (const std::bad_alloc&) {
    if (delivery) endpoint_.receives().fail(delivery, envelope, FI_ENOMEM, FI_ENOMEM);
    return out_of_memory();
  }
  stream_.clear(ticket);
}

ArrivingAtomic* Channel::arriving_atomic() noexcept {
  if (arriving_atomic_ == nullptr) arriving_atomic_.reset(new (std::nothrow) ArrivingAtomic);
  return arriving_atomic_.get();
}

void Channel::out_of_memory() noexcept {
  stream_.protocol_error("no memory for an unexpected message");
}

void Channel::abandon(bool arriving, int error) noexcept {
  rdm::ReceiveSide& receives = endpoint_.receives();
  if (const rdm::Delivery delivery = std::exchange(delivery_, {}); delivery && arriving)
    receives.fail(delivery, envelope_, error, error);
  arriving_ = blocked_ = nullptr;
  while (!messages_.empty()) {
    Unclaimed& message = messages_.pop_front();
    message.dead = true;
    message.channel = nullptr;
    if (message.taker)
      endpoint_.take(message, message.taker);
    else if (message.taken)
      delete &message;
  }
  for (const Cleared& each : std::exchange(cleared_, {}))
    if (each.delivery) receives.fail(each.delivery, each.envelope, error, error);
}

// ---- What the application does with them ----

void Channel::take(Unclaimed& message, const rdm::Delivery& delivery) noexcept {
  switch (message.where) {
    case Unclaimed::Where::kHere:
      return;  // the endpoint does it
    case Unclaimed::Where::kArriving:
    case Unclaimed::Where::kInSocket:
      message.taker = delivery;
      message.taken = true;
      if (blocked_ == &message) stream_.resume();
      return;
    case Unclaimed::Where::kAtSender:
      message.ListHook<Unclaimed>::unlink();
      clear(message.ticket, message.wants_ack, delivery, message.envelope);
      delete &message;
      return;
  }
}

void Channel::discard(Unclaimed& message) noexcept {
  take(message, {});
}

// ---- Closing while idle ----

bool Channel::quiet() noexcept {
  return stream_.quiet() && messages_.empty() && cleared_.empty() && !delivery_ && arriving_ == nullptr &&
         blocked_ == nullptr && peer_.waiting.empty();
}

void Channel::check_idle(Clock::time_point now) noexcept {
  if (open() && farewell_.asks(activity(), quiet(), now))
    stream_.say(Op::kFarewell, static_cast<std::uint8_t>(rdm::FarewellWord::kAsk));
}

void Channel::on_farewell(rdm::FarewellWord word) noexcept {
  using rdm::Farewell, rdm::FarewellWord;
  switch (farewell_.hear(word, activity(), quiet(), net::now())) {
    case Farewell::Then::kSayAgree:
      return stream_.say(Op::kFarewell, static_cast<std::uint8_t>(FarewellWord::kAgree));
    case Farewell::Then::kSayDecline:
      return stream_.say(Op::kFarewell, static_cast<std::uint8_t>(FarewellWord::kDecline));
    case Farewell::Then::kClose:
      return endpoint_.on_idle(*this);
    case Farewell::Then::kGoOn:
      return endpoint_.on_open(*this);
    case Farewell::Then::kNonsense:
      return stream_.protocol_error("a farewell that nobody asked for");
    case Farewell::Then::kNothing:
      return;
  }
}

// ---- Tickets of our own announcements ----

std::uint8_t Channel::take_ticket() noexcept {
  do {
    if (++last_ticket_ == 0) last_ticket_ = 1;
  } while (tickets_[last_ticket_]);
  tickets_[last_ticket_] = true;
  --tickets_left_;
  return last_ticket_;
}

void Channel::give_back_ticket(std::uint8_t ticket) noexcept {
  tickets_[ticket] = false;
  ++tickets_left_;
}

}  // namespace weft::tcp
