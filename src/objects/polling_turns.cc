// SPDX-License-Identifier: BSD-2-Clause
// Turns of polling an engine's descriptor; see polling_turns.h.
#include "objects/polling_turns.h"

#include <utility>

#include "objects/wait_object.h"

namespace weft {

void PollingTurns::Turn::take(std::shared_ptr<PollingTurns> turns) noexcept {
  end();
  turns_ = std::move(turns);
  if (turns_ == nullptr) return;
  const std::lock_guard lock(turns_->mutex_);
  if (turns_->taken_ == kMost) return turns_->waiting_.push_back(*this);
  ++turns_->taken_;
  come_.store(true, std::memory_order_release);
}

// The thread that is woken cannot leave, nor its wait object end, while the mutex is held.
void PollingTurns::Turn::end() noexcept {
  if (turns_ == nullptr) return;
  const std::lock_guard lock(turns_->mutex_);
  unlink();
  if (!come_.exchange(false)) return;
  if (turns_->waiting_.empty()) {
    --turns_->taken_;
    return;
  }
  Turn& next = turns_->waiting_.pop_front();
  next.come_.store(true, std::memory_order_release);
  next.sleeper_.wake_now();
}

}  // namespace weft
