// SPDX-License-Identifier: BSD-2-Clause
// Records of one type from slabs with a free list: the steady state allocates nothing, and memory follows the largest
// number of records in use at once, not the number of objects that may use some.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace weft {

// Not thread-safe: the owner's lock guards it. Every record must be back before the pool is destroyed.
template <class T>
class Pool {
 public:
  // A default-constructed record, or nullptr when memory is exhausted.
  T* take() noexcept {
    if (free_ == nullptr && !grow()) return nullptr;
    Slot* slot = free_;
    free_ = slot->next;
    return new (slot->bytes) T;
  }
  void give_back(T* record) noexcept {
    record->~T();
    Slot* slot = reinterpret_cast<Slot*>(record);
    slot->next = free_;
    free_ = slot;
  }

 private:
  union Slot {
    Slot* next;
    alignas(T) std::byte bytes[sizeof(T)];
  };
  static constexpr std::size_t kSlab = 32;

  bool grow() noexcept {
    try {
      slabs_.reserve(slabs_.size() + 1);
      slabs_.push_back(std::unique_ptr<Slot[]>(new Slot[kSlab]));
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (std::size_t i = 0; i < kSlab; ++i) {
      slabs_.back()[i].next = free_;
      free_ = &slabs_.back()[i];
    }
    return true;
  }

  Slot* free_ = nullptr;
  std::vector<std::unique_ptr<Slot[]>> slabs_;
};

}  // namespace weft
