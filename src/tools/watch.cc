// SPDX-License-Identifier: BSD-2-Clause
// Limits of waits; see watch.h.
#include "watch.h"

#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace weft::tools {
namespace {

volatile std::sig_atomic_t signal_seen = 0;

void on_signal(int) {
  signal_seen = 1;
}

void catch_signal(int number) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // no SA_RESTART: poll() must return
  sigaction(number, &action, nullptr);
}

}  // namespace

Watch::Watch(std::chrono::seconds deadline, std::chrono::seconds silence)
    : deadline_(deadline.count() ? Clock::now() + deadline : Clock::time_point::max()),
      deadline_after_(deadline),
      silence_(silence),
      last_activity_(Clock::now()) {
  catch_signal(SIGINT);
  catch_signal(SIGTERM);
}

void Watch::step(std::string what, Peer peer) {
  what_ = std::move(what);
  peer_ = peer;
  peer_active();
}

bool Watch::interrupted() noexcept {
  return signal_seen != 0;
}

Status Watch::check_socket() const {
  if (socket_ < 0) return {};
  char byte;
  const ssize_t size = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (size == 0) return fail(FI_ECONNRESET, "{}: the peer has ended", what_);
  if (size < 0 && errno != EAGAIN && errno != EINTR)
    return fail(FI_ECONNRESET, "{}: the peer has ended ({})", what_, std::strerror(errno));
  if (size > 0 && peer_ == Peer::kMustNotSpeak)
    return fail(FI_EIO, "{}: the peer finished early; -I and -S must be the same on both sides", what_);
  return {};
}

Status Watch::check() {
  if (interrupted()) return fail(FI_EINTR, "interrupted while {}", what_);
  WEFT_TRY(check_socket());
  const Clock::time_point now = Clock::now();
  if (now >= deadline_) return fail(FI_ETIMEDOUT, "{}: --timeout of {} s reached", what_, deadline_after_.count());
  if (peer_ != Peer::kMayIdle && silence_.count() && now - last_activity_ >= silence_)
    return fail(FI_ETIMEDOUT, "{}: the peer has been silent for {} s", what_, silence_.count());
  return {};
}

}  // namespace weft::tools
