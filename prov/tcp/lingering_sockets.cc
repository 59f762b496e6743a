// SPDX-License-Identifier: BSD-2-Clause
// Sockets between their owner's close and the system's; see lingering_sockets.h.
#include "tcp/lingering_sockets.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "tcp/names.h"

namespace weft::tcp {

LingeringSockets::Socket::Socket(LingeringSockets& of, UniqueFd opened) noexcept
    : Watch([](Watch& watch) noexcept { static_cast<Socket&>(watch).on_readable(); },
            [](Watch& watch) noexcept { static_cast<Socket&>(watch).wait_longer(); }),
      owner(of),
      socket(std::move(opened)) {}

bool LingeringSockets::Socket::is_done() noexcept {
  constexpr int kMostReads = 16;
  Engine& engine = owner.engine_;
  const ssize_t got = discard_input(socket.get(), {engine.receive_scratch(), Engine::kScratchSize}, kMostReads);
  if (got > 0) engine.make_ready(*this);  // more input: no further edge announces it
  return (got <= 0 && got != -EAGAIN) || net::is_delivered(socket.get());
}

void LingeringSockets::Socket::on_readable() noexcept {
  readable = false;
  if (is_done()) close();
}

void LingeringSockets::Socket::wait_longer() noexcept {
  if (waited >= kLongest || is_done()) return close();
  const Clock::duration next = std::min<Clock::duration>(waited, kLongest - waited);
  waited += next;
  owner.engine_.set_deadline(*this, net::now() + next);
}

void LingeringSockets::Socket::close() noexcept {
  owner.engine_.unwatch(*this);
  --owner.count_;
  delete this;
}

LingeringSockets::~LingeringSockets() {
  const auto limit = net::now() + kLast;
  for (close_done(); count_ != 0 && net::now() < limit; close_done())
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  while (count_ != 0) sockets_.front().close();
}

void LingeringSockets::close_done() noexcept {
  sockets_.for_each([](Socket& each) {
    if (each.is_done()) each.close();
  });
}

void LingeringSockets::add(UniqueFd opened) noexcept {
  close_done();
  if (count_ == kMost) sockets_.front().close();
  auto* const socket = new (std::nothrow) Socket(*this, std::move(opened));
  if (socket == nullptr) return;
  sockets_.push_back(*socket);
  ++count_;
  if (!engine_.watch(*socket, socket->socket.get()).ok()) return socket->close();
  engine_.silence(*socket);
  engine_.set_deadline(*socket, net::now() + kFirstLook);
}

}  // namespace weft::tcp
