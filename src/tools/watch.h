// SPDX-License-Identifier: BSD-2-Clause
// The reasons that end a wait early: the user (SIGINT), one absolute deadline for the whole run, a peer that ended, or
// a peer that is silent for too long. Every wait of fi_pingpong(1) checks them, so that none can hang.
#pragma once

#include <chrono>
#include <string>

#include "failure.h"

namespace weft::tools {

using Clock = std::chrono::steady_clock;

inline constexpr int kExitInterrupted = 130;  // as a shell reports SIGINT

// Not thread-safe.
class Watch {
 public:
  // Zero seconds: no such limit. Installs handlers for SIGINT and SIGTERM; a second signal ends the process.
  Watch(std::chrono::seconds deadline, std::chrono::seconds silence);

  enum class Peer {
    kMayIdle,       // no peer yet: its silence is not limited
    kMustAnswer,    // its silence is limited
    kMustNotSpeak,  // also, a message on the control connection would be out of step
  };
  // Names the next wait for error sentences: "waiting for the server's address". Restarts the silence limit.
  void step(std::string what, Peer peer = Peer::kMustAnswer);
  // Call when the peer has sent something.
  void peer_active() noexcept { last_activity_ = Clock::now(); }

  // The socket whose end means that the peer ended; -1 for none. The caller keeps it.
  void follow_socket(int fd) noexcept { socket_ = fd; }

  // FI_EINTR after a signal, FI_ETIMEDOUT, FI_ECONNRESET, FI_EIO (out of step); success: continue to wait.
  Status check();
  // Time-out for poll() until the next check().
  static constexpr int kPollMs = 100;

  static bool interrupted() noexcept;

 private:
  Status check_socket() const;

  Clock::time_point deadline_;
  std::chrono::seconds deadline_after_;
  std::chrono::seconds silence_;
  Peer peer_ = Peer::kMayIdle;
  Clock::time_point last_activity_;
  std::string what_;
  int socket_ = -1;
};

}  // namespace weft::tools
