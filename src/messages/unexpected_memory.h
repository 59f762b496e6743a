// SPDX-License-Identifier: BSD-2-Clause
// The memory of messages that arrived before their receives: one limit for all peers of a domain, and the part of it
// that each peer occupies, so that a peer that floods stops only itself; docs/limits.md.
//
// The owners of both classes guard them by one lock, the engine's mutex.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/list.h"

namespace weft::messages {

class PeerMemory;

// Bytes that a domain's unexpected messages may occupy unless a parameter sets a lower limit.
inline std::size_t quarter_of_memory() noexcept {
  static const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(size) / 4;
}

// The help text of the parameter UNEXPECTED_BYTES.
inline constexpr char kUnexpectedBytesHelp[] =
    "Most bytes of unexpected messages in a domain; at the limit senders wait, even with messages whose receive is "
    "posted";

// Bytes that buffers of the network, and queues of the sender, may hold.
inline constexpr std::size_t kUnderWay = std::size_t{64} << 20;

class UnexpectedMemory {
 public:
  explicit UnexpectedMemory(std::size_t limit) noexcept : limit_(limit) {}

 private:
  friend PeerMemory;

  const std::size_t limit_;
  std::size_t used_ = 0;
  std::size_t peers_ = 0;           // with messages
  List<PeerMemory> waiting_;        // peers that are not read for lack of room
  bool some_wait_for_any_ = false;  // some of them occupy little: any release may resume them
};

// One peer's part. All peers together may occupy the limit. Beyond it, a peer that occupies more than an equal share of
// the limit is stopped; so together they never occupy more than twice the limit, and kUnderWay.
class PeerMemory : public ListHook<PeerMemory> {
 public:
  using OnRoom = void (*)(PeerMemory&) noexcept;

  // `on_room` runs when half of the room that has_room() or is_scarce() found lacking is free. It does not handle
  // messages itself.
  explicit PeerMemory(OnRoom on_room) noexcept : on_room_(on_room) {}

  // Before the first message.
  void enter(UnexpectedMemory& all) noexcept {
    all_ = &all;
    limit_ = std::max(limit_, all.limit_);
  }
  // The peer follows reports of is_scarce(), so it may exceed the limit by kUnderWay: by messages that it sent before
  // the report arrived. Answers and matched messages queue behind those, and must arrive however low the limit is.
  void follows() noexcept { limit_ = all_->limit_ + std::min(kUnderWay, SIZE_MAX - all_->limit_); }
  std::size_t used() const noexcept { return used_; }
  // Whether another `bytes` may be occupied.
  bool takes(std::size_t bytes) const noexcept {
    return fits(bytes, all_->used_, limit_) || fits(bytes, used_, share());
  }
  // As takes(); if false, on_room() follows, unless stop_waiting() is called.
  bool has_room(std::size_t bytes) noexcept {
    if (takes(bytes)) [[likely]]
      return true;
    await_room();
    return false;
  }
  // Three quarters of the room are occupied, and on_room() follows as above.
  bool is_scarce() noexcept {
    if (all_->used_ / 3 <= all_->limit_ / 4 || used_ / 3 <= share() / 4) [[likely]]
      return false;
    await_room();
    return true;
  }
  bool awaits_room() const noexcept { return linked(); }
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
    const bool is_last = used_ == 0;
    if (is_last) --all_->peers_;
    if (all_->waiting_.empty()) [[likely]]
      return;
    // Shares grow only with the last message of a peer. So, until half of the limit is free, this release resumes no
    // peer that occupies more than half of its share; the walk resumes the others.
    if (is_last || all_->used_ <= all_->limit_ / 2 || std::exchange(all_->some_wait_for_any_, false))
      all_->waiting_.for_each([](PeerMemory& each) { each.resume_if_room(); });
    else if (linked())
      resume_if_room();
  }

 private:
  // A peer chooses `more`: a sum could overflow.
  static bool fits(std::size_t more, std::size_t used, std::size_t limit) noexcept {
    return used <= limit && more <= limit - used;
  }
  void resume_if_room() noexcept {
    if (all_->used_ > all_->limit_ / 2 && used_ > share() / 2) return;
    unlink();
    on_room_(*this);
  }
  void await_room() noexcept {
    if (linked()) return;
    all_->waiting_.push_back(*this);
    all_->some_wait_for_any_ |= used_ <= share() / 2;
  }
  std::size_t share() const noexcept { return all_->limit_ / (all_->peers_ + (used_ == 0 ? 1 : 0)); }

  const OnRoom on_room_;
  UnexpectedMemory* all_ = nullptr;
  std::size_t used_ = 0;
  std::size_t limit_ = 0;  // for what all peers occupy, as long as this one adds to it
};

}  // namespace weft::messages
