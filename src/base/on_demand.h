// SPDX-License-Identifier: BSD-2-Clause
// A part of an object that is made at its first use, because many objects of that kind never use it.
#pragma once

#include <atomic>
#include <memory>

namespace weft {

// Thread-safe. Threads that use the part first at the same time may each make one, and one of them stays: making and
// destroying a part has no effect beyond its own memory.
template <class T>
class OnDemand {
 public:
  OnDemand() noexcept = default;
  OnDemand(const OnDemand&) = delete;
  OnDemand& operator=(const OnDemand&) = delete;
  ~OnDemand() { delete part_.load(std::memory_order_relaxed); }

  // Null: not made yet.
  T* get() const noexcept { return part_.load(std::memory_order_acquire); }
  // `make` returns a std::unique_ptr<T>.
  template <class Make>
  T& get_or(Make make) {
    if (T* const part = get(); part != nullptr) [[likely]]
      return *part;
    std::unique_ptr<T> made = make();
    T* first = nullptr;
    if (!part_.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel)) return *first;
    return *made.release();
  }

 private:
  std::atomic<T*> part_{nullptr};
};

}  // namespace weft
