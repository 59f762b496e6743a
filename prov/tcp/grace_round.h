// SPDX-License-Identifier: BSD-2-Clause
// Decides when messages that arrive before their receives are stored. An application that has read its completions
// usually posts new receives before it makes progress again. So a message stays where it is for the rest of a round of
// progress, and then goes into the application's buffer. Storing it would take memory and a second copy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::tcp {

// Owner: the receiver of one peer's messages.
class GraceRound {
 public:
  // Whether `len` bytes may wait for the rest of `round`. False: they are stored, like all behind them in that round.
  bool may_wait(std::size_t len, std::uint64_t round) noexcept {
    if (len < kLeastCovered || since_ + 1 == round) return false;
    since_ = round;
    return true;
  }
  // A message matched a receive, so receives for the messages behind it may follow.
  void restart() noexcept { since_ = 0; }

 private:
  static constexpr std::size_t kLeastCovered = 2048;  // storing a shorter one costs less than reading it again

  std::uint64_t since_ = 0;  // the round that covers messages, or covered the last ones
};

}  // namespace weft::tcp
