// SPDX-License-Identifier: BSD-2-Clause
// The numbers by which a peer names our operations in its responses. A number is an index and a count of its uses, so
// that a late response finds no other operation.
#pragma once

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "rxm/messages/operations.h"

namespace weft::rxm {

// Owner: the endpoint's sender. The engine's mutex guards it.
class MessageNumbers {
 public:
  // The operation's number; 0, which is never used, when memory runs out.
  std::uint64_t assign(Transmit& transmit) noexcept {
    if (transmit.message != 0) return transmit.message;
    if (free_.empty()) {
      try {
        holders_.emplace_back(nullptr, 0);
        free_.reserve(holders_.size());
        free_.push_back(static_cast<std::uint32_t>(holders_.size() - 1));
      } catch (const std::bad_alloc&) {
        return 0;
      }
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    auto& [holder, uses] = holders_[index];
    holder = &transmit;
    if (++uses == 0) ++uses;
    return transmit.message = std::uint64_t{uses} << 32 | index;
  }
  void release(const Transmit& transmit) noexcept {
    if (transmit.message == 0) return;
    const auto index = static_cast<std::uint32_t>(transmit.message);
    holders_[index].first = nullptr;
    free_.push_back(index);  // has room since the number was assigned
  }
  // nullptr: the operation has ended, or never existed.
  Transmit* find(std::uint64_t message) const noexcept {
    const auto index = static_cast<std::uint32_t>(message);
    if (index >= holders_.size() || holders_[index].second != message >> 32) return nullptr;
    return holders_[index].first;
  }

 private:
  std::vector<std::pair<Transmit*, std::uint32_t>> holders_;
  std::vector<std::uint32_t> free_;
};

}  // namespace weft::rxm
