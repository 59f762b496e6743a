// SPDX-License-Identifier: BSD-2-Clause
// The active side of a connection that is being established: connects, sends one message, receives the answer;
// fi_cm(3). The accepting side sends its answer the same way. It exists only during the handshake: an idle endpoint
// stays small.
//
// Owner: the endpoint or channel that connects; the stream's watch replaces this one. The engine's mutex guards it.
#pragma once

#include "base/unique_fd.h"
#include "objects/address.h"
#include "tcp/connection/cm_message.h"
#include "tcp/engine.h"
#include "tcp/parameters.h"

namespace weft::tcp {

class Handshake : public Watch {
 public:
  // Result of a step. kWaiting: `ready` is called when the step can continue, `expired` when the time is over.
  enum class Step { kWaiting, kConnected, kSent, kAnswered, kFailed };

  // `limit`: until the peer's host has the request. From then on its application has `answer_timeout_ms`; 0: no limit;
  // negative: `limit` is for both.
  Handshake(Watch::Handler ready, Watch::Handler expired, Engine& engine, UniqueFd opened, const Parameters& parameters,
            Deadline limit, int answer_timeout_ms) noexcept;
  ~Handshake() { engine_.unwatch(*this); }
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // Connects, until kConnected; sends the beginning of the message together with the connection.
  Step connect(const Address& peer) noexcept;
  // Until kSent.
  Step send_message() noexcept;
  // Once the message is sent, until kAnswered: `message` has the answer.
  Step await_answer() noexcept;
  // Continues the call that returned kWaiting.
  Step proceed(const Address& peer) noexcept;
  // The present phase, for sentences about failures.
  const char* phase_name() const noexcept;

  // For the stream, which has probes of its own.
  UniqueFd take_socket() noexcept;

  UniqueFd socket;
  const Clock::time_point started_at;
  CmMessage message;
  // After kFailed: a positive errno, and an explaining sentence or null.
  int error = 0;
  const char* why = nullptr;

 private:
  enum class Phase : std::uint8_t { kConnecting, kSending, kAwaiting };

  Step receive_answer() noexcept;
  Step wait() noexcept;
  Step failed(int what, const char* sentence = nullptr) noexcept;

  Engine& engine_;
  const Parameters& parameters_;
  const int answer_timeout_ms_;
  Deadline limit_;
  Phase phase_ = Phase::kConnecting;
  bool began_ = false;
  bool probing_ = false;
};

}  // namespace weft::tcp
