// SPDX-License-Identifier: BSD-2-Clause
// Start and end of a stream: every posted operation completes, fails or is cancelled before the owner is notified of
// the end; fi_cm(3), fi_shutdown.
#include "tcp/stream/stream.h"

#include <rdma/providers/fi_log.h>
#include <sys/socket.h>

#include "tcp/logging.h"
#include "tcp/names.h"
#include "tcp/socket.h"

namespace weft::tcp {

Stream::Stream(MessageSink& sink, CompletionRoutes& routes, Engine& engine, MemoryRegions& regions,
               Pool<Transmit>& records) noexcept
    : TransmitSide([](Watch& watch) noexcept { static_cast<Stream&>(watch).run(); },
                   [](Watch& watch) noexcept { static_cast<Stream&>(watch).on_deadline_passed(); }, sink, routes,
                   engine, regions, records) {}

void Stream::start(UniqueFd socket, bool swap_bytes, Watch* handshake) noexcept {
  socket_ = std::move(socket);
  swap_ = swap_bytes;
  state_ = State::kOpen;
  writable = true;  // registration reports whether it is readable
  Status watched = engine_.open_scratch();
  if (watched.ok())
    watched = handshake != nullptr && handshake->fd >= 0 ? engine_.replace(*handshake, *this)
                                                         : engine_.watch_hot(*this, socket_.get());
  if (!watched.ok()) send_error_ = watched.error();
  if (send_error_ != 0) resume();  // the end must follow the caller's FI_CONNECTED
}

void Stream::stop(int error, int reason) noexcept {
  if (state_ == State::kEnded) return;
  const bool was_open = state_ == State::kOpen;
  if (was_open) flush();
  if (state_ == State::kEnded) return;  // the flush failed
  state_ = State::kEnded;
  if (was_open) close_socket();
  engine_.unwatch(*this);
  cancel_transmits(reason, reason, error);
  sink_.abandon(reason, error);
}

void Stream::enable_keepalive(int idle_s) noexcept {
  if (idle_s == 0 || state_ != State::kOpen) return;
  keepalive_s_ = idle_s;
  engine_.set_deadline(*this, net::now() + std::chrono::seconds(idle_s));
}

// Either the connection is old enough for keepalive, or the grace period after the peer's close is over and the
// remaining unexpected messages are dropped.
void Stream::on_deadline_passed() noexcept {
  if (const int idle_s = std::exchange(keepalive_s_, 0); idle_s != 0 && state_ == State::kOpen)
    return tcp::enable_keepalive(fd, idle_s);
  if (state_ == State::kOpen && blocked_) {
    FI_INFO(&provider(), FI_LOG_EP_DATA,
            "connection closed by the peer; %u bytes without a posted receive are dropped\n", stash_len_);
    blocked_ = false;
    stash_.reset();
    end(send_error_);
  }
  if (state_ == State::kDraining) finish_end();
}

bool Stream::quiet() const noexcept {
  return state_ == State::kOpen && output_quiet() && !blocked_ && payload_left_ == 0 && header_have_ == 0 &&
         send_error_ == 0;
}

// Closes with FIN instead of RST: unread input would make close() discard output that is still on its way.
void Stream::close_socket() noexcept {
  constexpr int kMostReads = 64;
  if (sent_count() != 0) {
    net::shutdown(socket_.get(), SHUT_WR);
    for (int i = 0; i < kMostReads; ++i)
      if (net::recv(socket_.get(), engine_.receive_scratch(), Engine::kScratchSize) <= 0) break;
  }
  engine_.unwatch(*this);
  socket_.reset();
}

}  // namespace weft::tcp
