// SPDX-License-Identifier: BSD-2-Clause
// The memory of messages that arrived before their receives: one limit for all peers of a domain, and the part of it
// that each peer occupies, so that a peer that floods stops only itself; docs/limits.md.
//
// The owners of both classes guard them by one lock, the engine's mutex.
#pragma once

#include <unistd.h>

#include <cstddef>

#include "base/list.h"

namespace weft::messages {

class PeerMemory;

// Bytes that a domain's unexpected messages may occupy unless a parameter says less.
inline std::size_t quarter_of_memory() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(size) / 4;
}

class UnexpectedMemory {
 public:
  explicit UnexpectedMemory(std::size_t limit) noexcept : limit_(limit) {}

 private:
  friend PeerMemory;

  const std::size_t limit_;
  std::size_t used_ = 0;
  std::size_t peers_ = 0;     // with messages
  List<PeerMemory> waiting_;  // peers that are not read for lack of room
};

// One peer's part. All peers together may occupy the limit. Beyond it a peer is stopped that occupies more than an
// equal share of the limit; so together they never occupy twice the limit.
class PeerMemory : public ListHook<PeerMemory> {
 public:
  using OnRoom = void (*)(PeerMemory&) noexcept;

  // `on_room` runs when half of the room that has_room() missed is free. It does not handle messages itself.
  explicit PeerMemory(OnRoom on_room) noexcept : on_room_(on_room) {}

  // Before the first message.
  void enter(UnexpectedMemory& all) noexcept { all_ = &all; }
  std::size_t used() const noexcept { return used_; }
  // Whether another `bytes` may be occupied. If not, on_room() follows, unless stop_waiting() is called.
  bool has_room(std::size_t bytes) noexcept {
    if (fits(bytes, all_->used_, all_->limit_) || fits(bytes, used_, share())) [[likely]]
      return true;
    if (!linked()) all_->waiting_.push_back(*this);
    return false;
  }
  // Before the owner is destroyed.
  void stop_waiting() noexcept { unlink(); }
  void add(std::size_t bytes) noexcept {
    if (used_ == 0) ++all_->peers_;
    used_ += bytes;
    all_->used_ += bytes;
  }
  void release(std::size_t bytes) noexcept {
    used_ -= bytes;
    all_->used_ -= bytes;
    if (used_ == 0) --all_->peers_;
    if (!all_->waiting_.empty()) [[unlikely]]
      all_->waiting_.for_each([](PeerMemory& each) {
        if (each.all_->used_ > each.all_->limit_ / 2 && each.used_ > each.share() / 2) return;
        each.unlink();
        each.on_room_(each);
      });
  }

 private:
  // A peer chooses `more`: a sum could overflow.
  static bool fits(std::size_t more, std::size_t used, std::size_t limit) noexcept {
    return used <= limit && more <= limit - used;
  }
  std::size_t share() const noexcept { return all_->limit_ / (all_->peers_ + (used_ == 0 ? 1 : 0)); }

  const OnRoom on_room_;
  UnexpectedMemory* all_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace weft::messages
