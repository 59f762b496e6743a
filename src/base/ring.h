// SPDX-License-Identifier: BSD-2-Clause
// A growing FIFO of trivially copyable records in one power-of-two buffer. Steady state allocates nothing; a burst
// beyond the capacity doubles it instead of losing a record. Not thread-safe: the owner's lock guards it.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace weft {

template <class T>
class Ring {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const noexcept { return tail_ - head_; }
  bool empty() const noexcept { return head_ == tail_; }

  void push_back(const T& value) {
    if (size() == capacity_) grow();
    slots_[tail_++ & (capacity_ - 1)] = value;
  }
  T& front() noexcept { return slots_[head_ & (capacity_ - 1)]; }
  T& operator[](std::size_t i) noexcept { return slots_[(head_ + i) & (capacity_ - 1)]; }
  void pop_front() noexcept { ++head_; }

 private:
  void grow() {
    const std::size_t bigger = capacity_ == 0 ? kFirst : capacity_ * 2;
    std::unique_ptr<T[]> slots(new T[bigger]);
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) slots[i] = (*this)[i];
    slots_ = std::move(slots);
    capacity_ = bigger;
    head_ = 0;
    tail_ = count;
  }

  static constexpr std::size_t kFirst = 8;
  std::unique_ptr<T[]> slots_;
  std::size_t capacity_ = 0;
  std::size_t head_ = 0;  // free-running; wraps together with tail_
  std::size_t tail_ = 0;
};

}  // namespace weft
