// SPDX-License-Identifier: BSD-2-Clause
// The numbers that identify our operations in a peer's responses. A number is an index and a count of its uses, so that
// a late response matches no other operation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace weft::messages {

// T has a `std::uint64_t message`, initially 0, for its number. Not thread-safe: the owner's lock guards it.
template <class T>
class MessageNumbers {
 public:
  // The operation's number; 0, which is never used, when memory runs out.
  std::uint64_t assign(T& operation) noexcept {
    if (operation.message != 0) return operation.message;
    if (free_.empty()) {
      try {
        free_.reserve(std::max(holders_.capacity(), holders_.size() + 1));
        holders_.emplace_back(nullptr, 0);
      } catch (const std::bad_alloc&) {
        return 0;
      }
      free_.push_back(static_cast<std::uint32_t>(holders_.size() - 1));
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    auto& [holder, uses] = holders_[index];
    holder = &operation;
    if (++uses == 0) ++uses;
    return operation.message = std::uint64_t{uses} << 32 | index;
  }
  void release(const T& operation) noexcept {
    if (operation.message == 0) return;
    const auto index = static_cast<std::uint32_t>(operation.message);
    holders_[index].first = nullptr;
    free_.push_back(index);  // has room since the number was assigned
  }
  // nullptr: the operation has ended, or never existed.
  T* find(std::uint64_t message) const noexcept {
    const auto index = static_cast<std::uint32_t>(message);
    if (index >= holders_.size() || holders_[index].second != message >> 32) return nullptr;
    return holders_[index].first;
  }

 private:
  std::vector<std::pair<T*, std::uint32_t>> holders_;
  std::vector<std::uint32_t> free_;
};

}  // namespace weft::messages
