// SPDX-License-Identifier: BSD-2-Clause
// The bytes of a connection; see transport.h.
#include "tcp/stream/transport.h"

#include <sys/socket.h>

#include <utility>

#include "tcp/logging.h"
#include "tcp/names.h"

namespace weft::tcp {

void Transport::close() noexcept {
  handover_.reset();
  wire_.reset();
  reads_wire_ = writes_wire_ = false;
  socket_.reset();
}

// Closes with FIN instead of RST: unread input would make close() discard output that is still on its way.
void Transport::close_gently() noexcept {
  constexpr int kMostReads = 64;
  if (wire_ != nullptr) wire_->wire->close();
  const bool lingers = !net::is_delivered(socket_.get());
  net::shutdown(socket_.get(), SHUT_WR);
  (void)discard_input(socket_.get(), {engine_.receive_scratch(), Engine::kScratchSize}, kMostReads);
  if (lingers) engine_.linger(std::move(socket_));
}

void Transport::await_output() noexcept {
  if (!writes_wire_) return engine_.await_output(*this);
  writable = false;
  engine_.await_room(*wire_);
}

void Transport::use_overflow() noexcept {
  if (!writes_wire_ || !wire_->awaits_room) return;
  wire_->wire->allow_overflow();
  (void)wire_->take_room();
}

void Transport::pause_input(bool paused) noexcept {
  if (wire_ == nullptr) return;
  wire_->paused = paused;
  if (!paused) engine_.poll_wire(*wire_);
}

// ---- Bytes ----

ssize_t Transport::write_wire(std::span<const iovec> pieces, bool may_offer) noexcept {
  const ssize_t sent = wire_->wire->write(pieces, may_offer);
  if (wire_->wire->must_wake_reader()) wake_peer();
  return sent;
}

// The other end may have closed, or died, after its last bytes.
ssize_t Transport::read_wire(std::span<const iovec> pieces) noexcept {
  ssize_t got = wire_->wire->read(pieces);
  if (got == -EAGAIN && signalled) {
    const ssize_t end = read_signals();
    got = wire_->wire->read(pieces);
    if (got == -EAGAIN) got = end;
  }
  if (wire_->wire->must_wake_writer()) wake_peer();
  return got;
}

// Returns -EAGAIN unless the socket has come to its end. Behind a hang-up no further edge follows. An error is reported
// by the system only once, so it is kept.
ssize_t Transport::read_signals() noexcept {
  constexpr int kMostReads = 16;
  std::byte signals[256];
  for (int i = 0; i < kMostReads && wire_->end == -EAGAIN; ++i) {
    const ssize_t got = net::recv(socket_.get(), signals, sizeof signals);
    if (got <= 0 && got != -EAGAIN) wire_->end = wire_->wire->peer_closed() ? 0 : static_cast<int>(got);
    if (got == -EAGAIN || (got > 0 && got < static_cast<ssize_t>(sizeof signals) && !hung)) {
      signalled = false;
      return -EAGAIN;
    }
  }
  if (wire_->end == -EAGAIN) engine_.make_ready(*this);
  return wire_->end;
}

// Before Op::kSwitch nothing else may be sent, and Op::kSwitch wakes the peer as well. An unsent byte in the socket
// will wake the peer; one that was sent may have been read before. If the system has no memory, the next round sends
// the wake-up, because the request of the peer for it has been cleared.
void Transport::wake_peer() noexcept {
  const std::byte signal{};
  if (!writes_wire_) return;
  const ssize_t sent = net::send(socket_.get(), &signal, sizeof signal);
  wire_->wakes_again = sent == -ENOBUFS || sent == -ENOMEM || (sent == -EAGAIN && !net::has_unsent(socket_.get()));
  if (wire_->wakes_again) engine_.make_ready(*this);
}

// ---- The agreement ----

std::optional<Invitation> Transport::propose(LocalHost& host) noexcept {
  proposed_ = true;
  invited_ = false;
  ++tries_;
  if (wire_ != nullptr || !is_within_host()) return std::nullopt;
  handover_.reset(new (std::nothrow) Handover);
  return handover_ != nullptr ? host.invite(*handover_) : std::nullopt;
}

// If both ends proposed, the active one's mailbox is used. A peer may send any number of these messages, and need not
// be on this host.
Transport::Step Transport::on_mailbox(LocalHost& host, const Invitation& at) noexcept {
  if (at.token == 0) return on_announced_datagram(host);
  if (!allowed_ || wire_ != nullptr || (handover_ != nullptr && active_ && !invited_) || tries_ == kMostTries ||
      !is_within_host())
    return Step::kNothing;
  ++tries_;
  proposed_ = invited_ = true;
  handover_.reset(new (std::nothrow) Handover);
  if (handover_ == nullptr) return Step::kNothing;
  host.expect(*handover_, at.token);
  const Status status(host.send(at, -1));
  // -EAGAIN: the mailbox is full of other peers' datagrams. Its owner then reads them, and proposes again.
  if (status.ok() || status.code() == -EAGAIN) return Step::kAnnounceDatagram;
  return give_up(status);
}

// The datagram is in the mailbox; or it was read already, with datagrams of other connections; or the mailbox was full.
Transport::Step Transport::on_announced_datagram(LocalHost& host) noexcept {
  if (handover_ == nullptr || created_ || tries_ == kMostTries) return Step::kNothing;
  if (handover_->from == 0) host.read_mailbox();
  if (handover_->from == 0) return invited_ ? Step::kNothing : Step::kProposeAgain;
  return invited_ ? attach() : give_memory(host);
}

Transport::Step Transport::give_up(Status why) noexcept {
  tries_ = kMostTries;
  log_unshared(why);
  return Step::kNothing;
}

Transport::Step Transport::give_memory(LocalHost& host) noexcept {
  UniqueFd memory;
  auto made = LocalWire::create(memory);
  const Status status = made ? Status(host.send({handover_->from, handover_->token}, memory.get())) : made.error();
  if (status.code() == -EAGAIN) return Step::kProposeAgain;
  if (!status.ok()) return give_up(status);
  if (!adopt(std::move(*made))) return Step::kNothing;
  created_ = true;
  return Step::kAnnounceDatagram;
}

Transport::Step Transport::attach() noexcept {
  tries_ = kMostTries;
  auto attached = LocalWire::attach(handover_->memory);
  if (!attached) return give_up(attached.error());
  if (!adopt(std::move(*attached))) return Step::kNothing;
  wire_->wire->keep_proof();
  return Step::kSwitch;
}

bool Transport::is_within_host() const noexcept {
  const Address peer = peer_of(socket_.get());
  return peer && name_of(socket_.get(), {}).same_host(peer);
}

bool Transport::adopt(std::unique_ptr<LocalWire> made) noexcept {
  wire_.reset(new (std::nothrow) WireWatch(*this, std::move(made)));
  if (wire_ != nullptr) wire_->process = handover_->process;
  return wire_ != nullptr;
}

Transport::Step Transport::on_switch() noexcept {
  if (wire_ == nullptr || reads_wire_) return Step::kFail;
  reads_wire_ = wire_->reads = true;
  signalled = readable = true;
  engine_.silence(*this);
  engine_.poll_wire(*wire_);
  if (created_) wire_->wire->keep_proof();
  handover_.reset();
  test_peer_access();
  return created_ ? Step::kSwitch : Step::kNothing;
}

void Transport::switch_output() noexcept {
  writes_wire_ = writable = true;
  engine_.poll_wire(*wire_);
}

void Transport::test_peer_access() noexcept {
  static std::atomic_flag logged;
  const Status status = wire_->wire->test_peer_access(wire_->process);
  if (!status.ok()) log_once(logged, "long messages of peers on this host are copied twice", status);
}

}  // namespace weft::tcp
