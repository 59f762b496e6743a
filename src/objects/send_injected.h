// SPDX-License-Identifier: BSD-2-Clause
// The last injected operations of an endpoint or context that closes; fi_inject(3).
#pragma once

#include <chrono>
#include <thread>

#include "base/deadline.h"
#include "base/mutex.h"
#include "objects/progress.h"

namespace weft {

// An injected operation is complete for the application. So those that wait for a connection, or for room, are sent
// before their endpoint or context closes, unless the peer takes longer than this. Then the closes of the next seconds
// do not wait: peers that read nothing cost no second each. Called without the mutex of `engine`. `waits`: whether one
// waits still; called with the mutex held.
inline constexpr std::chrono::seconds kMostTimeForInjected{1}, kPauseAfterIt{10};
template <class Engine, class Waits>
void send_injected(Engine& engine, Waits waits) noexcept {
  const auto limit = Clock::now() + kMostTimeForInjected;
  for (;; std::this_thread::sleep_for(std::chrono::microseconds(50))) {
    {
      Lock lock(engine.mutex());
      const auto now = Clock::now();
      if (!waits() || now < engine.closes_wait_from) return;
      if (now >= limit) {
        engine.closes_wait_from = now + kPauseAfterIt;
        return;
      }
    }
    make_progress(engine);
  }
}

}  // namespace weft
