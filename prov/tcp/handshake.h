// SPDX-License-Identifier: BSD-2-Clause
// The asking side of a connection in the making: dials, sends one message, collects the answer; fi_cm(3). The one that
// accepts sends its answer the same way. It exists only meanwhile, so that an idle endpoint stays small.
//
// Owner: whoever connects; its watch is replaced by the stream's. The engine's mutex guards it.
#pragma once

#include "base/unique_fd.h"
#include "objects/address.h"
#include "tcp/cm_message.h"
#include "tcp/engine.h"
#include "tcp/parameters.h"

namespace weft::tcp {

class Handshake : public Watch {
 public:
  // What a step came to. kWaiting: `ready` is called when there is something to do, `expired` when it took too long.
  enum class Step { kWaiting, kConnected, kSent, kAnswered, kFailed };

  // `timeout_ms`: of all of it; 0: none.
  Handshake(Watch::Handler ready, Watch::Handler expired, Engine& engine, UniqueFd opened, const Parameters& parameters,
            int timeout_ms) noexcept;
  ~Handshake() { engine_.unwatch(*this); }
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // Until kConnected; sends the beginning of the message with it.
  Step dial(const Address& peer) noexcept;
  // Until kSent.
  Step send_message() noexcept;
  // Once the message is sent, and then receive_answer() until kAnswered: `message` has the answer.
  Step await_answer() noexcept;
  Step receive_answer() noexcept;

  UniqueFd socket;
  const Clock::time_point started_at;
  CmMessage message;
  // After kFailed: positive; and a sentence where that says too little, or null.
  int error = 0;
  const char* why = nullptr;

 private:
  Step wait(bool for_answer) noexcept;
  Step failed(int what, const char* sentence = nullptr) noexcept;

  Engine& engine_;
  const Parameters& parameters_;
  const int timeout_ms_;
  bool dialled_ = false;
};

}  // namespace weft::tcp
