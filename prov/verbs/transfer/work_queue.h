// SPDX-License-Identifier: BSD-2-Clause
// Records of posted work requests, kept until their work completions arrive: arrays that are allocated once, as long as
// the queue is deep. A work request's wr_id is the address of its record.
//
// One thread posts at a time and one thread completes at a time (under the endpoint's and the channel's locks); the two
// sides share one atomic, so neither takes the other's lock.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/light_lock.h"
#include "base/status.h"
#include "verbs/device/verbs_handles.h"

namespace weft::verbs {

class DatagramReceives;
class ReceiveQueue;
class SendQueue;
class SharedReceive;

// A result of ibv_post_send or ibv_post_recv that is not 0.
[[gnu::noinline, gnu::cold]] inline ssize_t refused(int result) noexcept {
  const int error = errno_of(result);
  return error == ENOMEM ? -FI_EAGAIN : Status::from_errno(error).code();
}
[[gnu::noinline, gnu::cold]] inline ssize_t unlock_refused(LightLock& lock, int error) noexcept {
  lock.unlock();
  return refused(error);
}

struct Posted {
  enum class Role : std::uint8_t {
    kTransmit,
    kMarker,         // the last work request of a closing endpoint: all others complete before it
    kProbe,          // from an idle endpoint, to detect the loss of its peer
    kReceive,        // for an endpoint
    kSharedReceive,  // for a shared receive context
    kDatagram,       // a receive of the provider, into the buffers of a datagram endpoint
  };
  // In `flags`, beside the flags of the completion (FI_SEND | FI_MSG ..., all below bit 31):
  static constexpr std::uint32_t kReport = FI_COMPLETION;          // requested completion
  static constexpr std::uint32_t kCount = std::uint32_t{1} << 31;  // a counter is bound for it
  static constexpr std::uint32_t kFirstHalf = FI_MORE;             // the next record belongs to the same operation
  static constexpr std::uint32_t kOurs = kReport | kCount | kFirstHalf;

  void* context = nullptr;
  union {  // the queue that it belongs to, by role
    SendQueue* sends = nullptr;
    ReceiveQueue* receives;
    SharedReceive* shared;
    DatagramReceives* datagrams;
  };
  std::uint32_t flags = 0;
  Role role = Role::kTransmit;
  std::uint8_t status = 0;         // ibv_wc_status of the first half, if that failed
  std::atomic<bool> busy = false;  // receives: posted and not completed
  std::uint16_t number = 0;        // receives: of the record
  union {
    std::uint32_t len = 0;  // receives: bytes of the application's buffer
    std::uint32_t end;      // transmissions: the queue's position behind it
  };
};

// Transmissions complete in the order of their posts, so a signalled one releases the unsignalled ones before it.
class SendRing {
 public:
  // -FI_ENOMEM.
  Status open(std::size_t size, SendQueue& queue) noexcept;

  // Poster. The record of the work request after `ahead` others. Null: full, or closed.
  Posted* next(std::uint32_t ahead = 0) noexcept {
    if (head_ + ahead - known_tail_ >= limit_) [[unlikely]] {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head_ + ahead - known_tail_ >= limit_) return nullptr;
    }
    return &at(head_ + ahead);
  }
  // Whether the next work request must be signalled, so that room is found in time.
  bool must_signal() const noexcept { return head_ - signalled_ + 1 >= signal_every_; }
  // The work request of the record of next() was posted.
  void push(bool signalled) noexcept {
    if (!is_clear()) ++clear_end_;
    step();
    if (signalled) signalled_ = head_;
  }
  // Takes back the youngest `count`, which were not posted after all.
  void take_back(std::uint32_t count) noexcept {
    head_ -= count;
    require_signal();
  }
  // The next one is signalled.
  void require_signal() noexcept {
    signalled_ = head_ - signal_every_;
    block();
  }
  Posted& youngest(std::uint32_t age) noexcept { return slots_[(head_ - 1 - age) & mask_]; }
  void close() noexcept {
    limit_ = 0;
    block();
  }

  // The fast path is open: front() is a record whose work request needs no signal, and nothing else needs a check
  // before it is posted; step() follows the post. After clear() that holds for as many posts as there is room, until
  // block(). `signals`: the next one is signalled in any case; if it is not posted, require_signal() must follow.
  bool is_clear() const noexcept { return clear_end_ != head_; }
  Posted& front() noexcept { return at(head_); }
  void step() noexcept { ++head_; }
  void clear(bool signals = false) noexcept;
  void block() noexcept { clear_end_ = head_; }

  bool closed() const noexcept { return limit_ == 0; }
  std::size_t room() const noexcept;
  std::uint32_t outstanding() const noexcept { return head_ - tail_.load(std::memory_order_acquire); }
  // A position in the queue, and whether everything posted before it has completed.
  std::uint32_t now() const noexcept { return head_; }
  bool passed(std::uint32_t moment) const noexcept {
    return static_cast<std::int32_t>(tail_.load(std::memory_order_acquire) - moment) >= 0;
  }

  // Completer. `slot` has a work completion: all before it have completed. Frees its record.
  void complete_through(const Posted& slot) noexcept { tail_.store(slot.end, std::memory_order_release); }
  Posted& after(const Posted& slot) noexcept { return slots_[slot.end & mask_]; }

  // Poster. Whether nothing that is outstanding will be reported.
  bool is_silent() const noexcept;

  // Both, after the last work completion. All have completed.
  void complete_all() noexcept { tail_.store(head_, std::memory_order_release); }
  // Completes the oldest outstanding one. Null: none.
  Posted* take_oldest() noexcept;

  std::size_t size() const noexcept { return size_; }

 private:
  // The record of the work request at a position, from its post on.
  Posted& at(std::uint32_t position) noexcept {
    Posted& slot = slots_[position & mask_];
    slot.end = position + 1;
    return slot;
  }

  std::unique_ptr<Posted[]> slots_;
  std::uint32_t size_ = 0;
  std::uint32_t limit_ = 0;  // size_, or 0 once closed
  std::uint32_t mask_ = 0;
  std::uint32_t head_ = 0;       // free-running, like the next three
  std::uint32_t clear_end_ = 0;  // never behind head_
  std::uint32_t known_tail_ = 0;
  std::uint32_t signalled_ = 0;  // one past the last signalled one
  std::uint32_t signal_every_ = 1;
  std::atomic<std::uint32_t> tail_{0};
};

// The unused part of a multi-receive buffer.
struct MultiReceive {
  std::byte* next = nullptr;
  std::uint64_t left = 0;
  std::uint32_t lkey = 0;
};

// Records of receives. A multi-receive buffer keeps its record while it takes messages, so records return in any order.
class ReceiveSlots {
 public:
  // Before this call there is no room. -FI_ENOMEM.
  Status open(std::size_t size, ReceiveQueue& queue) noexcept;
  Status open(std::size_t size, SharedReceive& queue) noexcept;

  // Poster. Null: full, or closed.
  Posted* take() noexcept {
    if (head_ == known_tail_) [[unlikely]] {
      if (closed_) return nullptr;
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head_ == known_tail_) return nullptr;
    }
    Posted& slot = front();
    slot.busy.store(true, std::memory_order_relaxed);
    push();
    return &slot;
  }
  // take() in steps: while is_clear(), front() is free; push() takes it.
  bool is_clear() const noexcept { return head_ != known_tail_; }
  Posted& front() noexcept { return slots_[free_[head_ & mask_]]; }
  void push() noexcept { ++head_; }
  // The record taken last was not posted after all.
  void take_back(Posted& slot) noexcept {
    slot.busy.store(false, std::memory_order_relaxed);
    --head_;
  }
  void close() noexcept {
    closed_ = true;
    known_tail_ = head_;
  }
  bool closed() const noexcept { return closed_; }
  bool opened() const noexcept { return slots_ != nullptr; }
  std::size_t room() const noexcept { return closed_ ? 0 : tail_.load(std::memory_order_acquire) - head_; }
  std::uint32_t outstanding() const noexcept { return size_ - (tail_.load(std::memory_order_acquire) - head_); }
  // The state of a multi-receive buffer, for its record. Null: no memory.
  MultiReceive* make_multi(const Posted& slot) noexcept;
  Posted* find(const void* context) noexcept;

  // Completer.
  MultiReceive& multi(const Posted& slot) noexcept { return multi_[slot.number]; }
  void give_back(Posted& slot) noexcept {
    slot.busy.store(false, std::memory_order_relaxed);
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    free_[tail & mask_] = slot.number;
    tail_.store(tail + 1, std::memory_order_release);
  }

  // Both. Adds to the flags of those that are outstanding.
  void mark_posted(std::uint32_t flags) noexcept;
  // Both, after the last work completion. Completes any outstanding one. Null: none.
  Posted* take_left() noexcept;

  std::size_t size() const noexcept { return size_; }

 private:
  Status allocate(std::size_t size, Posted::Role role) noexcept;

  std::unique_ptr<Posted[]> slots_;
  std::unique_ptr<std::uint16_t[]> free_;  // ring of the numbers of free records
  std::unique_ptr<MultiReceive[]> multi_;  // parallel to slots_; allocated with the first multi-receive buffer
  std::uint32_t size_ = 0;
  std::uint32_t mask_ = 0;
  std::uint32_t head_ = 0;  // free-running: records taken so far
  std::uint32_t known_tail_ = 0;
  bool closed_ = false;
  std::atomic<std::uint32_t> tail_{0};  // size_ + records given back so far
};

}  // namespace weft::verbs
