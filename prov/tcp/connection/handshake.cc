// SPDX-License-Identifier: BSD-2-Clause
// A connection that is being established; see handshake.h.
#include "tcp/connection/handshake.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/fi_errno.h>

#include <utility>

#include "tcp/names.h"
#include "tcp/socket.h"

namespace weft::tcp {

Handshake::Handshake(Watch::Handler ready, Watch::Handler expired, Engine& engine, UniqueFd opened,
                     const Parameters& parameters, Deadline limit, int answer_timeout_ms) noexcept
    : Watch(ready, expired),
      socket(std::move(opened)),
      started_at(net::now()),
      engine_(engine),
      parameters_(parameters),
      answer_timeout_ms_(answer_timeout_ms),
      limit_(limit) {}

Handshake::Step Handshake::proceed(const Address& peer) noexcept {
  if (phase_ == Phase::kConnecting) return connect(peer);
  return phase_ == Phase::kSending ? send_message() : receive_answer();
}

const char* Handshake::phase_name() const noexcept {
  if (phase_ == Phase::kConnecting) return "connecting";
  if (phase_ == Phase::kAwaiting) return "waiting for the answer";
  return message.type() == CmType::kAccept ? "sending the acceptance" : "sending the request";
}

Handshake::Step Handshake::failed(int what, const char* sentence) noexcept {
  error = what;
  why = sentence;
  return Step::kFailed;
}

Handshake::Step Handshake::connect(const Address& peer) noexcept {
  int result = 0;
  if (!std::exchange(began_, true)) {
    // The request follows at once, so it can carry the last packet of TCP's handshake.
    net::set_option(socket.get(), IPPROTO_TCP, TCP_QUICKACK, 0);
    result = net::connect(socket.get(), peer.data(), peer.size());
  } else if (hung) {
    result = net::connect_result(socket.get());
  }
  if (result < 0 && result != -EINPROGRESS) return failed(-result);
  // Over the loopback, or to a nearby peer, the connection is up already; otherwise send() answers -ENOTCONN.
  const auto unsent = message.unsent();
  const ssize_t sent = net::send(socket.get(), unsent.data(), unsent.size());
  if (sent == -EAGAIN || sent == -ENOTCONN) return wait();
  if (sent < 0) return failed(static_cast<int>(-sent));
  message.advance(static_cast<std::size_t>(sent));
  return Step::kConnected;
}

Handshake::Step Handshake::send_message() noexcept {
  phase_ = Phase::kSending;
  for (auto unsent = message.unsent(); !unsent.empty(); unsent = message.unsent()) {
    const ssize_t sent = net::send(socket.get(), unsent.data(), unsent.size());
    if (sent == -EAGAIN) return wait();
    if (sent < 0) return failed(static_cast<int>(-sent));
    message.advance(static_cast<std::size_t>(sent));
  }
  return Step::kSent;
}

Handshake::Step Handshake::await_answer() noexcept {
  phase_ = Phase::kAwaiting;
  message = CmMessage();
  // Done here, while the peer works: the request was sent first, so Nagle's algorithm could not delay it.
  prepare_stream(socket.get(), parameters_);
  // The peer's host has the request: from here on its application has a time of its own.
  if (answer_timeout_ms_ >= 0) limit_ = Deadline::after(net::now(), std::chrono::milliseconds(answer_timeout_ms_));
  // Without a deadline, the kernel's probes detect a peer host that dies meanwhile.
  probing_ = limit_.infinite();
  if (probing_) keep_alive(socket.get(), 5, 2, 2);
  return wait();
}

UniqueFd Handshake::take_socket() noexcept {
  if (probing_) net::set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 0);
  return std::move(socket);
}

// Waits for readiness, until the limit.
Handshake::Step Handshake::wait() noexcept {
  writable = false;
  const bool for_answer = phase_ == Phase::kAwaiting;
  const bool watched = fd >= 0;
  if (!watched) {
    // On the loopback the answer often arrives within microseconds; before it, the socket must become writable.
    const Status status =
        for_answer ? engine_.watch_hot(*this, socket.get()) : engine_.watch(*this, socket.get(), true);
    if (!status.ok()) return failed(status.error());
  }
  if (limit_.infinite())
    engine_.clear_deadline(*this);
  else if (limit_.time() != deadline)
    engine_.set_deadline(*this, limit_.time());
  return watched && for_answer && readable ? receive_answer() : Step::kWaiting;
}

Handshake::Step Handshake::receive_answer() noexcept {
  for (Result<bool> complete = false; !*complete;) {
    const auto room = message.room();
    const ssize_t count = net::recv(socket.get(), room.data(), room.size());
    if (count == -EAGAIN) {
      readable = false;
      return Step::kWaiting;
    }
    if (count == 0) return failed(FI_ECONNABORTED, "connection closed by the peer without an answer");
    if (count < 0) return failed(static_cast<int>(-count));
    message.advance(static_cast<std::size_t>(count));
    complete = message.complete();
    if (!complete)
      return failed(complete.error().error(), complete.error().error() == FI_ENOPROTOOPT
                                                  ? "the peer speaks another version of the protocol"
                                                  : "the peer's answer is not a connection message");
  }
  return Step::kAnswered;
}

}  // namespace weft::tcp
