// SPDX-License-Identifier: BSD-2-Clause
// The last injected operations of an endpoint or context that closes; fi_inject(3).
#pragma once

#include <chrono>
#include <thread>

#include "base/deadline.h"
#include "base/mutex.h"

namespace weft {

// An injected operation is complete for the application. So those that wait for a connection, or for room, are sent
// before their endpoint or context closes, unless the peer takes longer than this. Called without the mutex of
// `engine`. `waits`: whether one waits still; called with the mutex held.
inline constexpr std::chrono::seconds kMostTimeForInjected{1};
template <class Engine, class Waits>
void send_injected(Engine& engine, Waits waits) noexcept {
  const auto limit = Clock::now() + kMostTimeForInjected;
  for (; Clock::now() < limit; std::this_thread::sleep_for(std::chrono::microseconds(50))) {
    {
      Lock lock(engine.mutex());
      if (!waits()) return;
    }
    engine.drive();
  }
}

}  // namespace weft
