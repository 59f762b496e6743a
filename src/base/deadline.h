// SPDX-License-Identifier: BSD-2-Clause
// One absolute point in time for a whole wait: a wake-up never restarts the timeout (fi_eq(3), fi_cq(3), fi_cntr(3)).
#pragma once

#include <chrono>

namespace weft {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  // Never expires.
  constexpr Deadline() noexcept = default;
  constexpr explicit Deadline(Clock::time_point at) noexcept : at_(at) {}

  // `timeout_ms` as libfabric's blocking calls take it: negative waits for ever, 0 does not wait.
  static Deadline in_ms(int timeout_ms) noexcept {
    return timeout_ms < 0 ? Deadline() : Deadline(Clock::now() + std::chrono::milliseconds(timeout_ms));
  }

  // `limit` zero: never.
  static constexpr Deadline after(Clock::time_point start, Clock::duration limit) noexcept {
    return limit == Clock::duration::zero() ? Deadline() : Deadline(start + limit);
  }

  constexpr bool infinite() const noexcept { return at_ == Clock::time_point::max(); }
  bool expired() const noexcept { return !infinite() && Clock::now() >= at_; }
  constexpr Clock::time_point time() const noexcept { return at_; }

  constexpr void postpone(Clock::duration by) noexcept {
    if (!infinite()) at_ += by;
  }

  friend constexpr auto operator<=>(Deadline a, Deadline b) noexcept = default;

 private:
  Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace weft
