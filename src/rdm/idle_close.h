// SPDX-License-Identifier: BSD-2-Clause
// The agreement of both ends of an idle connection to close it, without loss and unseen by applications: fi_endpoint(3)
// (FI_EP_RDM) has no connections.
//
// An end that has been idle sends a request and then nothing more until the answer; its operations wait meanwhile. The
// other end agrees if it is idle and quiet too, sends nothing more, and waits for the end of the connection; otherwise
// it declines, and both ends resume. These messages keep their order among the others, so an end that receives a
// request or an agreement has received everything that was sent before. When both ends send requests at the same time,
// both have stopped sending, and each treats the request as an agreement.
#pragma once

#include <cstdint>

#include "base/deadline.h"

namespace weft::rdm {

enum class IdleCloseMessage : std::uint8_t { kRequest = 1, kAgree = 2, kDecline = 3 };

// One end of a connection; belongs to it. No thread-safety of its own.
class IdleClose {
 public:
  enum class Action : std::uint8_t { kNone, kSendAgree, kSendDecline, kClose, kResume, kProtocolError };

  // Both ends support this. `patience`: how long an end is idle before it sends a request; zero: never.
  void allow(Clock::duration patience, Clock::time_point now) noexcept {
    state_ = State::kNone;
    patience_ = patience;
    idle_since_ = now;
  }
  // Operations wait for an answer, or for the end of the connection.
  bool holds() const noexcept { return state_ >= State::kRequested; }
  // This end has agreed to close: the other end sends nothing more.
  bool agreed() const noexcept { return state_ == State::kAgreed; }

  // Called regularly: whether to send a request now. `activity`: a number that changes with everything sent or
  // received.
  bool should_request(std::uint64_t activity, bool quiet, Clock::time_point now) noexcept {
    note(activity, now);
    if (state_ != State::kNone || !quiet || now - idle_since_ < patience_) return false;
    state_ = State::kRequested;
    return true;
  }

  // The answer to a message of the other end.
  Action on_message(IdleCloseMessage message, std::uint64_t activity, bool quiet, Clock::time_point now) noexcept {
    switch (message) {
      case IdleCloseMessage::kRequest:
        if (state_ == State::kRequested) return Action::kClose;
        if (state_ != State::kNone) return Action::kProtocolError;
        note(activity, now);
        if (!quiet || now - idle_since_ < patience_ / 2) return Action::kSendDecline;
        state_ = State::kAgreed;
        return Action::kSendAgree;
      case IdleCloseMessage::kAgree:
        return state_ == State::kRequested ? Action::kClose : Action::kProtocolError;
      case IdleCloseMessage::kDecline:
        if (state_ != State::kRequested) return Action::kProtocolError;
        state_ = State::kNone;
        idle_since_ = now;
        return Action::kResume;
    }
    return Action::kProtocolError;
  }

 private:
  enum class State : std::uint8_t { kImpossible, kNone, kRequested, kAgreed };

  void note(std::uint64_t activity, Clock::time_point now) noexcept {
    if (activity == activity_) return;
    activity_ = activity;
    idle_since_ = now;
  }

  State state_ = State::kImpossible;
  std::uint64_t activity_ = 0;
  Clock::duration patience_{};
  Clock::time_point idle_since_{};
};

}  // namespace weft::rdm
