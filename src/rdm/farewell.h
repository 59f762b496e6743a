// SPDX-License-Identifier: BSD-2-Clause
// How the two ends of an idle connection agree to close it, so that nothing is lost and nobody notices; fi_endpoint(3)
// (FI_EP_RDM) knows no connections.
//
// Who has been idle asks, and sends nothing more before it has the answer; operations wait meanwhile. The other end
// agrees if it is idle and quiet too, sends nothing more, and waits for the end of the connection; else it declines and
// everything goes on. Words keep their order among messages, so whoever hears "ask" or "agree" has got all that was
// sent before. Ends that ask at the same time have both fallen silent, and each takes the question for an agreement.
#pragma once

#include <cstdint>

#include "base/deadline.h"

namespace weft::rdm {

enum class FarewellWord : std::uint8_t { kAsk = 1, kAgree = 2, kDecline = 3 };

// One end of a connection; belongs to it. No thread-safety of its own.
class Farewell {
 public:
  enum class Then : std::uint8_t { kNothing, kSayAgree, kSayDecline, kClose, kGoOn, kNonsense };

  // Both ends understand this. `patience`: how long an end is idle before it asks; zero: never.
  void allow(Clock::duration patience, Clock::time_point now) noexcept {
    state_ = State::kNone;
    patience_ = patience;
    idle_since_ = now;
  }
  bool allowed() const noexcept { return state_ != State::kImpossible; }
  // Operations wait for an answer, or for the connection's end.
  bool holds() const noexcept { return state_ >= State::kAsked; }
  // The other end has said that it sends nothing more.
  bool agreed() const noexcept { return state_ == State::kAgreed; }

  // To be called now and then: whether to ask now. `activity`: any number that changes with what is sent or received.
  bool asks(std::uint64_t activity, bool quiet, Clock::time_point now) noexcept {
    note(activity, now);
    if (state_ != State::kNone || !quiet || now - idle_since_ < patience_) return false;
    state_ = State::kAsked;
    return true;
  }

  // What to do about a word of the other end's.
  Then hear(FarewellWord word, std::uint64_t activity, bool quiet, Clock::time_point now) noexcept {
    switch (word) {
      case FarewellWord::kAsk:
        if (state_ == State::kAsked) return Then::kClose;
        if (state_ != State::kNone) return Then::kNonsense;
        note(activity, now);
        if (!quiet || now - idle_since_ < patience_ / 2) return Then::kSayDecline;
        state_ = State::kAgreed;
        return Then::kSayAgree;
      case FarewellWord::kAgree:
        return state_ == State::kAsked ? Then::kClose : Then::kNonsense;
      case FarewellWord::kDecline:
        if (state_ != State::kAsked) return Then::kNonsense;
        state_ = State::kNone;
        idle_since_ = now;
        return Then::kGoOn;
    }
    return Then::kNonsense;
  }

 private:
  enum class State : std::uint8_t { kImpossible, kNone, kAsked, kAgreed };

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
