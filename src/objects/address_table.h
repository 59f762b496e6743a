// SPDX-License-Identifier: BSD-2-Clause
// The storage of an address vector: indices to addresses and back; fi_av(3) defines the indices. Looking up an index
// takes no lock, because the data path does it for every datagram.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/on_demand.h"

namespace weft {

// The indices of a table. Thread-safe.
class AddressIndices {
 public:
  // An index that was reserved and will not be filled.
  void release(uint64_t index) noexcept {
    std::lock_guard lock(mutex_);
    release_locked(index);
  }

 protected:
  ~AddressIndices() = default;
  void release_locked(uint64_t index) noexcept {
    unused_.push_back(index);
    std::ranges::push_heap(unused_, std::greater<>());
  }

  mutable MutexLock mutex_;       // guards all but reading chunks, used slots and version_
  uint64_t end_ = 0;              // lowest index never reserved
  std::vector<uint64_t> unused_;  // a heap, the lowest first; it has room for all indices
};

// Entries live in chunks that double in size and never move, so a pointer from find() is good until that index is
// removed. Thread-safe; removing an index while another thread uses it is the application's error, as fi_av(3) defines.
template <class A>
class AddressTable : public AddressIndices {
 public:
  AddressTable() = default;
  ~AddressTable() {
    for (unsigned chunk = 0; chunk < kChunks; ++chunk) delete[] slots_of(chunk);
  }
  // Reserves the `count` lowest unused indices, in order. Each is then filled, or returned with release().
  std::vector<uint64_t> reserve(size_t count) {
    std::lock_guard lock(mutex_);
    std::vector<uint64_t> indices(count);
    // First the memory: without it nothing is reserved.
    for (uint64_t i = unused_.size(); i < count; ++i) make_chunk_locked(end_ + i - unused_.size());
    for (uint64_t& index : indices) {
      if (unused_.empty()) {
        index = end_++;
      } else {
        std::ranges::pop_heap(unused_, std::greater<>());
        index = unused_.back();
        unused_.pop_back();
      }
    }
    return indices;
  }
  void fill(uint64_t index, const A& address, uint64_t user_id) {
    std::lock_guard lock(mutex_);
    by_address_.emplace(address, index);
    Slot& slot = *slot_at(index);
    slot.address = address;
    slot.user_id = user_id;
    slot.uses = 1;
    slot.used.store(true, std::memory_order_release);
    note_change_locked();
  }

  // The index of an address that is in use; it gains one use. kNone if the address has no index. A user id replaces
  // that of the address.
  uint64_t share(const A& address, uint64_t user_id) noexcept {
    std::lock_guard lock(mutex_);
    const auto it = by_address_.find(address);
    if (it == by_address_.end()) return kNone;
    Slot& slot = *slot_at(it->second);
    ++slot.uses;
    if (user_id != kNone) set_user_id_locked(slot, user_id);
    return it->second;
  }

  // Ends one use of the index. False if it is not in use.
  bool remove(uint64_t index) {
    std::lock_guard lock(mutex_);
    Slot* slot = used_slot(index);
    if (slot == nullptr) return false;
    if (--slot->uses != 0) return true;
    release_locked(index);
    auto [first, last] = by_address_.equal_range(slot->address);
    for (auto it = first; it != last; ++it) {
      if (it->second != index) continue;
      by_address_.erase(it);
      break;
    }
    slot->used.store(false, std::memory_order_release);
    note_change_locked();
    return true;
  }

  // Null if the index is not in use. No lock.
  const A* find(uint64_t index) const noexcept {
    const Slot* slot = used_slot(index);
    return slot != nullptr ? &slot->address : nullptr;
  }
  // The peer's name in completions: its index unless a user id was set; ~0 if unknown.
  uint64_t source(const A& address) const noexcept {
    std::lock_guard lock(mutex_);
    const auto it = by_address_.find(address);
    if (it == by_address_.end()) return kNone;
    const uint64_t user_id = used_slot(it->second)->user_id;
    return user_id != kNone ? user_id : it->second;
  }
  bool set_user_id(uint64_t index, uint64_t user_id) noexcept {
    std::lock_guard lock(mutex_);
    Slot* slot = used_slot(index);
    if (slot == nullptr) return false;
    set_user_id_locked(*slot, user_id);
    return true;
  }

  // Changes whenever a result of the functions above may change; never 0. A caller that reads it before a lookup can
  // check later whether the result still holds. No lock.
  uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }

  static constexpr uint64_t kNone = ~uint64_t{0};

 private:
  struct Slot {
    A address;
    uint64_t user_id = kNone;
    uint32_t uses = 0;
    std::atomic<bool> used{false};
  };
  static constexpr unsigned kFirstBits = 6;  // chunk 0 holds 64 entries, chunk k 64 << k
  static constexpr unsigned kChunks = 40 - kFirstBits;
  static constexpr unsigned kNear = 16;  // most vectors have no more
  using Chunk = std::atomic<Slot*>;
  using FarChunks = std::array<Chunk, kChunks - kNear>;

  // The highest bit of index + 64 selects the chunk; the bits below it are the place in the chunk.
  static constexpr uint64_t kFirst = uint64_t{1} << kFirstBits;
  static unsigned chunk_of(uint64_t index) noexcept {
    return static_cast<unsigned>(std::bit_width(index + kFirst)) - 1 - kFirstBits;
  }
  static uint64_t place_in(unsigned chunk, uint64_t index) noexcept { return (index + kFirst) ^ (kFirst << chunk); }

  // Null: the chunk was not made.
  Slot* slots_of(unsigned chunk) const noexcept {
    if (chunk < kNear) [[likely]]
      return near_[chunk].load(std::memory_order_acquire);
    const FarChunks* const far = far_.get();
    return far != nullptr && chunk < kChunks ? (*far)[chunk - kNear].load(std::memory_order_acquire) : nullptr;
  }
  // Null if no chunk was made for that index.
  Slot* slot_at(uint64_t index) const noexcept {
    const unsigned chunk = chunk_of(index);
    Slot* slots = slots_of(chunk);
    return slots != nullptr ? &slots[place_in(chunk, index)] : nullptr;
  }
  Slot* used_slot(uint64_t index) const noexcept {
    Slot* slot = slot_at(index);
    return slot != nullptr && slot->used.load(std::memory_order_acquire) ? slot : nullptr;
  }
  void set_user_id_locked(Slot& slot, uint64_t user_id) noexcept {
    slot.user_id = user_id;
    note_change_locked();
  }
  void note_change_locked() noexcept {
    version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  void make_chunk_locked(uint64_t index) {
    const unsigned chunk = chunk_of(index);
    if (slots_of(chunk) != nullptr) return;
    Chunk& place =
        chunk < kNear ? near_[chunk] : far_.get_or([] { return std::make_unique<FarChunks>(); })[chunk - kNear];
    unused_.reserve((kFirst << (chunk + 1)) - kFirst);  // the indices of the chunks up to this one
    place.store(new Slot[size_t{1} << (chunk + kFirstBits)], std::memory_order_release);
  }

  std::array<Chunk, kNear> near_{};   // owned
  OnDemand<FarChunks> far_;           // the rest, owned
  std::atomic<uint64_t> version_{1};  // written under mutex_
  std::unordered_multimap<A, uint64_t> by_address_;
};

}  // namespace weft
