// SPDX-License-Identifier: BSD-2-Clause
// What ends a wait before that which is waited for: the user (SIGINT), one absolute deadline for the whole run, a peer
// that is gone, or a peer that says nothing for too long. Every wait of fi_pingpong asks here, so none can hang.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "failure.h"

namespace weft::tools {

using Clock = std::chrono::steady_clock;

inline constexpr int kExitInterrupted = 130;  // as a shell reports SIGINT

// Not thread-safe.
class Watch {
 public:
  // Zero seconds: no such limit. Installs handlers for SIGINT and SIGTERM; a second signal kills.
  Watch(std::chrono::seconds deadline, std::chrono::seconds silence);

  enum class Peer {
    kMayIdle,       // there is none yet: it may take its time
    kMustAnswer,    // silence is limited
    kMustNotSpeak,  // and on the control connection it has nothing to say: it would be out of step
  };
  // What is waited for from now on, for messages: "waiting for the server's address". Restarts the silence limit.
  void step(std::string what, Peer peer = Peer::kMustAnswer);
  // The peer did something.
  void heard() noexcept { heard_ = Clock::now(); }

  // The socket whose end means that the peer is gone; -1 for none. It stays its owner's.
  void follow_socket(int fd) noexcept { socket_ = fd; }

  // FI_EINTR after a signal, FI_ETIMEDOUT, FI_ECONNRESET, FI_EIO (out of step); else success: wait on.
  Status check();
  // For poll(): how long until check() should be asked again.
  static constexpr int kPollMs = 100;

  static bool interrupted() noexcept;

 private:
  Status look_at_socket() const;

  Clock::time_point deadline_;
  std::chrono::seconds deadline_after_;
  std::chrono::seconds silence_;
  Peer peer_ = Peer::kMayIdle;
  Clock::time_point heard_;
  std::string what_;
  int socket_ = -1;
};

}  // namespace weft::tools
