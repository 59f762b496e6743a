// SPDX-License-Identifier: BSD-2-Clause
// Life and end of a stream: every operation that was posted completes, fails or is cancelled before the endpoint
// learns that the stream has ended (fi_cm(3), fi_shutdown).
#include "tcp/stream.h"

#include <rdma/providers/fi_log.h>
#include <sys/socket.h>

#include "tcp/names.h"
#include "tcp/provider.h"
#include "tcp/reliable_channel.h"
#include "tcp/socket.h"
#include "tcp/transfer_endpoint.h"

namespace weft::tcp {

Stream::Stream(TransferEndpoint& endpoint, Engine& engine, MemoryRegions& regions, TransferPools& pools) noexcept
    : Watch([](Watch& watch) noexcept { static_cast<Stream&>(watch).run(); },
            [](Watch& watch) noexcept { static_cast<Stream&>(watch).on_deadline_passed(); }),
      endpoint_(&endpoint),
      channel_(nullptr),
      routes_(endpoint.routes),
      engine_(engine),
      regions_(regions),
      pools_(pools) {}

Stream::Stream(Channel& channel, CompletionRoutes& routes, Engine& engine, MemoryRegions& regions,
               TransferPools& pools) noexcept
    : Watch([](Watch& watch) noexcept { static_cast<Stream&>(watch).run(); },
            [](Watch& watch) noexcept { static_cast<Stream&>(watch).on_deadline_passed(); }),
      endpoint_(nullptr),
      channel_(&channel),
      routes_(routes),
      engine_(engine),
      regions_(regions),
      pools_(pools) {}

ReceiveQueue& Stream::receive_queue() noexcept {
  return endpoint_->receive_queue();
}

void Stream::start(UniqueFd socket, bool swap_bytes, std::span<const std::byte> early, Watch* handshake) noexcept {
  socket_ = std::move(socket);
  swap_ = swap_bytes;
  state_ = State::kOpen;
  writable = true;  // what is there to read, registration tells
  const Status watched = handshake != nullptr && handshake->fd >= 0 ? engine_.replace(*handshake, *this)
                                                                    : engine_.watch_hot(*this, socket_.get());
  if (!watched.ok()) send_error_ = watched.error();
  // Nothing is parsed here: what it leads to, even the end, comes after the caller has reported FI_CONNECTED.
  stash_.assign(early.begin(), early.end());
  blocked_ = !stash_.empty();
  if (blocked_ || send_error_ != 0) resume();
}

void Stream::stop(int error, int reason) noexcept {
  if (state_ == State::kEnded) return;
  const bool was_open = state_ == State::kOpen;
  if (was_open) flush();
  if (state_ == State::kEnded) return;  // the flush found it broken
  state_ = State::kEnded;
  if (was_open) close_socket();
  engine_.unwatch(*this);
  cancel_transmits(reason, error);
  cancel_receives(reason, error);
}

void Stream::end(int error) noexcept {
  if (state_ != State::kOpen) return;
  state_ = State::kDraining;
  end_error_ = error;
  engine_.unwatch(*this);
  socket_.reset();
  ListHook<BlockedTag>::unlink();
  if (channel_ != nullptr) {
    state_ = State::kEnded;
    cancel_transmits(FI_ECONNRESET, error);
    cancel_receives(FI_ECONNRESET, error);
    return channel_->on_stream_end(error);
  }
  cancel_transmits(FI_ECANCELED, error);
  // The message that was arriving is lost; whole ones that nobody asked for yet are still to be had for a while.
  if (unexpected_ != nullptr) {
    Unexpected& partial = *std::exchange(unexpected_, nullptr);
    if (partial.taker.receive != nullptr) fail_receive(partial.taker, FI_ECONNRESET, error);
    receive_queue().drop(partial);
    delete &partial;
  }
  if (receive_queue().keeps_from(*this))
    engine_.set_deadline(*this, net::now() + kDrainGrace);
  else
    finish_end();
}

void Stream::finish_end() noexcept {
  state_ = State::kEnded;
  engine_.clear_deadline(*this);
  cancel_receives(FI_ECONNRESET, end_error_);
  endpoint_->on_stream_end(end_error_);
}

void Stream::ask_when_silent(int idle_s) noexcept {
  if (idle_s == 0 || state_ != State::kOpen) return;
  keepalive_s_ = idle_s;
  engine_.set_deadline(*this, net::now() + std::chrono::seconds(idle_s));
}

// The connection has become old enough to be asked; or the grace period of a closed peer is over, and what nobody
// received is dropped.
void Stream::on_deadline_passed() noexcept {
  if (const int idle_s = std::exchange(keepalive_s_, 0); idle_s != 0 && state_ == State::kOpen)
    return tcp::ask_when_silent(fd, idle_s);
  if (state_ == State::kOpen && blocked_) {
    FI_INFO(&provider(), FI_LOG_EP_DATA, "the peer closed; %zu bytes that no receive was posted for are lost\n",
            stash_.size());
    blocked_ = false;
    stash_.clear();
    end(0);
  }
  if (state_ == State::kDraining) finish_end();
}

bool Stream::quiet() const noexcept {
  return state_ == State::kOpen && outstanding_ == 0 && response_count_ == 0 && sending_.empty() && queue_.empty() &&
         acks_owed_.empty() && !blocked_ && payload_left_ == 0 && header_have_ == 0 && send_error_ == 0;
}

// FIN, not RST: unread input would make close() discard output that is still on its way.
void Stream::close_socket() noexcept {
  constexpr int kMostReads = 64;
  if (next_id_ != 0) net::shutdown(socket_.get(), SHUT_WR);
  for (int i = 0; next_id_ != 0 && i < kMostReads; ++i)
    if (net::recv(socket_.get(), engine_.receive_scratch(), Engine::kScratchSize) <= 0) break;
  engine_.unwatch(*this);
  socket_.reset();
}

// `arriving_error` is what operations get whose data was arriving; nothing had happened to the others.
void Stream::cancel_receives(int arriving_error, int native) noexcept {
  ListHook<BlockedTag>::unlink();
  stash_.clear();
  blocked_ = false;
  payload_left_ = 0;
  if (reading_ != nullptr) fail_record(*std::exchange(reading_, nullptr), arriving_error, end_error_);
  if (channel_ != nullptr) {
    const bool arriving = std::exchange(sink_kind_, Sink::kNone) == Sink::kChannel;
    return channel_->abandon(arriving, arriving_error);
  }
  if (piece_.receive != nullptr) fail_receive(std::exchange(piece_, {}), arriving_error, native);
  if (unexpected_ != nullptr && unexpected_->taker.receive != nullptr)
    fail_receive(unexpected_->taker, arriving_error, native);
  unexpected_ = nullptr;
  sink_kind_ = Sink::kNone;
  receive_queue().drop_stream(*this);
  endpoint_->cancel_posted_receives(native);
}

void Stream::protocol_error(const char* what) noexcept {
  FI_WARN(&provider(), FI_LOG_EP_DATA, "connection closed: %s\n", what);
  end(EPROTO);
}

}  // namespace weft::tcp
