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
                     const Parameters& parameters, int timeout_ms) noexcept
    : Watch(ready, expired),
      socket(std::move(opened)),
      started_at(net::now()),
      engine_(engine),
      parameters_(parameters),
      timeout_ms_(timeout_ms) {}

Handshake::Step Handshake::failed(int what, const char* sentence) noexcept {
  error = what;
  why = sentence;
  return Step::kFailed;
}

Handshake::Step Handshake::dial(const Address& peer) noexcept {
  int result = 0;
  if (!std::exchange(dialled_, true)) {
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
  if (sent == -EAGAIN || sent == -ENOTCONN) return wait(false);
  if (sent < 0) return failed(static_cast<int>(-sent));
  message.advance(static_cast<std::size_t>(sent));
  return Step::kConnected;
}

Handshake::Step Handshake::send_message() noexcept {
  for (auto unsent = message.unsent(); !unsent.empty(); unsent = message.unsent()) {
    const ssize_t sent = net::send(socket.get(), unsent.data(), unsent.size());
    if (sent == -EAGAIN) return wait(false);
    if (sent < 0) return failed(static_cast<int>(-sent));
    message.advance(static_cast<std::size_t>(sent));
  }
  return Step::kSent;
}

Handshake::Step Handshake::await_answer() noexcept {
  message = CmMessage();
  // Done here, while the peer works: the request was sent first, so Nagle's algorithm could not delay it.
  prepare_stream(socket.get(), parameters_);
  return wait(true);
}

// Waits for readiness; the first call sets the deadline.
Handshake::Step Handshake::wait(bool for_answer) noexcept {
  writable = false;
  if (fd >= 0) return for_answer && readable ? receive_answer() : Step::kWaiting;
  // On the loopback the answer often arrives within microseconds; before it, the socket must become writable.
  const Status status = for_answer ? engine_.watch_hot(*this, socket.get()) : engine_.watch(*this, socket.get(), true);
  if (!status.ok()) return failed(status.error());
  if (timeout_ms_ != 0) engine_.set_deadline(*this, started_at + std::chrono::milliseconds(timeout_ms_));
  return Step::kWaiting;
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
                                                  : "the peer sent something else than a connection message");
  }
  return Step::kAnswered;
}

}  // namespace weft::tcp
