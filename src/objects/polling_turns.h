// SPDX-License-Identifier: BSD-2-Clause
// Turns of polling an engine's descriptor. Threads that sleep on many queues of one engine would all be woken by each
// of its events. So a few of them poll the descriptor. These make progress, and progress wakes the thread whose queue
// received something. A thread that returns to its application passes its turn to one that still sleeps.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/list.h"

namespace weft {

class WaitObject;

// Owners: the engine, and the threads that take a turn. Thread-safe. Lock order: this mutex before a wait object's.
class PollingTurns {
 public:
  // Two threads that each have a queue, or one and the reader of an event queue, are woken at once.
  static constexpr unsigned kMost = 2;

  // A thread's turn, or its place in the queue for one. For that thread alone, unless a member's comment differs.
  class Turn : public ListHook<Turn> {
   public:
    // `sleeper`: where the thread is woken when its turn comes.
    explicit Turn(WaitObject& sleeper) noexcept : sleeper_(sleeper) {}
    ~Turn() { end(); }
    // Ends the turn it has, and takes one of `turns` or queues for it; null: none.
    void take(std::shared_ptr<PollingTurns> turns) noexcept;
    // Whether the thread must poll the descriptor.
    bool has_come() const noexcept { return come_.load(std::memory_order_acquire); }
    const PollingTurns* turns() const noexcept { return turns_.get(); }

   private:
    void end() noexcept;

    WaitObject& sleeper_;
    std::shared_ptr<PollingTurns> turns_;
    std::atomic<bool> come_{false};  // written under the mutex, by any thread
  };

 private:
  std::mutex mutex_;
  unsigned taken_ = 0;
  List<Turn> waiting_;
};

// Engines without them let every sleeper poll.
template <class E>
std::shared_ptr<PollingTurns> polling_turns_of(E& engine) noexcept {
  if constexpr (requires { engine.polling_turns(); })
    return engine.polling_turns();
  else
    return nullptr;
}

}  // namespace weft
