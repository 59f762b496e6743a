// SPDX-License-Identifier: BSD-2-Clause
// The rare operations of work queues; see work_queue.h.
#include "verbs/transfer/work_queue.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "verbs/device/limits.h"

namespace weft::verbs {
namespace {

static_assert(kMaxQueueSize <= 65536, "the numbers of records fit in 16 bits");

std::unique_ptr<Posted[]> make_slots(std::uint32_t count) noexcept {
  return std::unique_ptr<Posted[]>(new (std::nothrow) Posted[count]);
}

}  // namespace

Status SendRing::open(std::size_t size, SendQueue& queue) noexcept {
  // At least two: some operations are two work requests.
  const auto wanted = static_cast<std::uint32_t>(std::clamp<std::size_t>(size, 2, kMaxQueueSize));
  const std::uint32_t capacity = std::bit_ceil(wanted);
  slots_ = make_slots(capacity);
  if (slots_ == nullptr) return Status(-FI_ENOMEM);
  size_ = limit_ = wanted;
  mask_ = capacity - 1;
  signal_every_ = std::max(size_ / 2, 1u);
  for (std::uint32_t i = 0; i < capacity; ++i) slots_[i].sends = &queue;
  return {};
}

void SendRing::clear(bool signals) noexcept {
  known_tail_ = tail_.load(std::memory_order_acquire);
  const std::uint32_t used = head_ - known_tail_;
  const std::uint32_t free = limit_ > used ? limit_ - used : 0;
  if (signals && free != 0) signalled_ = head_ + 1;
  const std::uint32_t next = head_ - signalled_ + 1;
  const std::uint32_t quiet = next < signal_every_ ? signal_every_ - next : 0;
  clear_end_ = head_ + std::min(free, quiet);
}

std::size_t SendRing::room() const noexcept {
  const std::uint32_t used = outstanding();
  return limit_ > used ? limit_ - used : 0;
}

bool SendRing::is_silent() const noexcept {
  for (std::uint32_t at = tail_.load(std::memory_order_acquire); at != head_; ++at)
    if ((slots_[at & mask_].flags & (Posted::kReport | Posted::kCount)) != 0) return false;
  return true;
}

Posted* SendRing::take_oldest() noexcept {
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  if (tail == head_) return nullptr;
  tail_.store(tail + 1, std::memory_order_release);
  return &slots_[tail & mask_];
}

Status ReceiveSlots::allocate(std::size_t size, Posted::Role role) noexcept {
  const auto wanted = static_cast<std::uint32_t>(std::clamp<std::size_t>(size, 1, kMaxQueueSize));
  const std::uint32_t capacity = std::bit_ceil(wanted);
  auto slots = make_slots(wanted);
  free_.reset(new (std::nothrow) std::uint16_t[capacity]);
  if (slots == nullptr || free_ == nullptr) return Status(-FI_ENOMEM);
  slots_ = std::move(slots);
  size_ = wanted;
  mask_ = capacity - 1;
  for (std::uint32_t i = 0; i < size_; ++i) {
    free_[i] = slots_[i].number = static_cast<std::uint16_t>(i);
    slots_[i].role = role;
  }
  tail_.store(size_, std::memory_order_release);
  return {};
}

Status ReceiveSlots::open(std::size_t size, ReceiveQueue& queue) noexcept {
  const Status status = allocate(size, Posted::Role::kReceive);
  for (std::uint32_t i = 0; i < size_; ++i) slots_[i].receives = &queue;
  return status;
}

Status ReceiveSlots::open(std::size_t size, SharedReceive& queue) noexcept {
  const Status status = allocate(size, Posted::Role::kSharedReceive);
  for (std::uint32_t i = 0; i < size_; ++i) slots_[i].shared = &queue;
  return status;
}

MultiReceive* ReceiveSlots::make_multi(const Posted& slot) noexcept {
  if (multi_ == nullptr) multi_.reset(new (std::nothrow) MultiReceive[size_]);
  return multi_ != nullptr ? &multi_[slot.number] : nullptr;
}

Posted* ReceiveSlots::find(const void* context) noexcept {
  for (std::uint32_t i = 0; i < size_; ++i)
    if (slots_[i].busy.load(std::memory_order_relaxed) && slots_[i].context == context) return &slots_[i];
  return nullptr;
}

void ReceiveSlots::mark_posted(std::uint32_t flags) noexcept {
  for (std::uint32_t i = 0; i < size_; ++i)
    if (slots_[i].busy.load(std::memory_order_relaxed)) slots_[i].flags |= flags;
}

Posted* ReceiveSlots::take_left() noexcept {
  for (std::uint32_t i = 0; i < size_; ++i) {
    if (!slots_[i].busy.load(std::memory_order_relaxed)) continue;
    give_back(slots_[i]);
    return &slots_[i];
  }
  return nullptr;
}

}  // namespace weft::verbs
