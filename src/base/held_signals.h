// SPDX-License-Identifier: BSD-2-Clause
// Signals that a thread handles while it polls: sigprocmask(2), ppoll(2). A handler that runs between two system calls
// leaves no trace, so signals are held back meanwhile, and handled in a call that reports them.
#pragma once

#include <poll.h>
#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace weft {

// Owner: one thread's stack. While it exists, that thread handles signals in handle() only; those that report a fault
// of the thread itself are not held back.
class HeldSignals {
 public:
  // `hold` false: no effect.
  explicit HeldSignals(bool hold) noexcept : holds_(hold) {
    if (!hold) return;
    sigset_t held;
    ::sigfillset(&held);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) ::sigdelset(&held, fault);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() {
    if (holds_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  // Does not wait. True: a handler ran.
  bool handle() const noexcept {
    const timespec none{};
    return ::ppoll(nullptr, 0, &none, &before_) < 0 && errno == EINTR;
  }

 private:
  const bool holds_;
  sigset_t before_{};
};

}  // namespace weft
