// SPDX-License-Identifier: BSD-2-Clause
// What is remembered of posted work requests until their work completions: records in arrays that are allocated once,
// as many as the queue is deep. A work request's wr_id is the address of its record.
//
// One thread posts at a time and one thread completes at a time (under the endpoint's and the channel's locks); the
// two sides meet in one atomic, so neither takes the other's lock.
#pragma once

#include <rdma/fabric.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace weft::verbs {

class TransferEndpoint;
class SharedReceive;

struct Posted {
  enum class Role : std::uint8_t {
    kTransmit,
    kMarker,         // the last work request of an endpoint that ends: when it has completed, all others have
    kProbe,          // of an idle endpoint, to learn whether its peer is there
    kReceive,        // of an endpoint
    kSharedReceive,  // of a shared receive context
    kDatagram,       // a receive of our own, into the buffers of a datagram endpoint
  };
  // Beside those of the completion (FI_SEND | FI_MSG ..., all below bit 31) in `flags`:
  static constexpr std::uint32_t kReport = FI_COMPLETION;          // a completion is wanted
  static constexpr std::uint32_t kCount = std::uint32_t{1} << 31;  // a counter is bound for it
  static constexpr std::uint32_t kFirstHalf = FI_MORE;             // the next record is the same operation's
  static constexpr std::uint32_t kOurs = kReport | kCount | kFirstHalf;

  void* context = nullptr;
  union {
    TransferEndpoint* endpoint = nullptr;
    SharedReceive* shared;
  };
  std::uint32_t flags = 0;
  Role role = Role::kTransmit;
  std::uint8_t status = 0;         // ibv_wc_status of the first half, if that failed
  std::atomic<bool> busy = false;  // receives: posted and not completed
  std::uint16_t number = 0;        // receives: of the record
  std::uint32_t len = 0;           // receives: bytes of the application's buffer
};

// Transmissions complete in the order they were posted in, so one that asks for no work completion is released by the
// next that has one.
class SendRing {
 public:
  // -FI_ENOMEM.
  Status open(std::size_t size, TransferEndpoint& endpoint) noexcept;

  // Poster. The record of the work request that comes after `ahead` others. Null: full, or closed.
  Posted* next(std::uint32_t ahead = 0) noexcept {
    if (head_ + ahead - known_tail_ >= limit_) [[unlikely]] {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head_ + ahead - known_tail_ >= limit_) return nullptr;
    }
    return &slots_[(head_ + ahead) & mask_];
  }
  // Whether the next work request must have a work completion, so that this queue finds out in time that it has room.
  bool must_signal() const noexcept { return head_ - signalled_ + 1 >= signal_every_; }
  // The record that next() gave is in use: its work request was posted.
  void push(bool signalled) noexcept {
    ++head_;
    if (signalled) signalled_ = head_;
  }
  // The youngest `count` were not posted after all.
  void take_back(std::uint32_t count) noexcept {
    head_ -= count;
    signalled_ = head_ - signal_every_;
    block();
  }
  Posted& youngest(std::uint32_t age) noexcept { return slots_[(head_ - 1 - age) & mask_]; }
  void close() noexcept {
    limit_ = 0;
    block();
  }

  // The way is clear: there is a record, front(), whose work request needs no signal, and nothing else is to be looked
  // at before it is posted. After clear() that holds for as many posts as there is room, until something calls block().
  bool is_clear() const noexcept { return static_cast<std::int32_t>(clear_end_ - head_) > 0; }
  Posted& front() noexcept { return slots_[head_ & mask_]; }
  void clear() noexcept;
  void block() noexcept { clear_end_ = head_; }

  bool closed() const noexcept { return limit_ == 0; }
  std::size_t room() const noexcept;
  std::uint32_t outstanding() const noexcept { return head_ - tail_.load(std::memory_order_acquire); }
  // A moment, and whether all that was posted before it has completed.
  std::uint32_t now() const noexcept { return head_; }
  bool passed(std::uint32_t moment) const noexcept {
    return static_cast<std::int32_t>(tail_.load(std::memory_order_acquire) - moment) >= 0;
  }

  // Completer. `slot` has a work completion: all before it have completed. The record is free from then on.
  void complete_through(const Posted& slot) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const auto index = static_cast<std::uint32_t>(&slot - slots_.get());
    tail_.store(tail + ((index - tail) & mask_) + 1, std::memory_order_release);
  }
  Posted& after(const Posted& slot) noexcept {
    return slots_[(static_cast<std::uint32_t>(&slot - slots_.get()) + 1) & mask_];
  }

  // Both, when no work completion can come any more. All have completed.
  void complete_all() noexcept { tail_.store(head_, std::memory_order_release); }
  // The oldest that has not completed, completed by this. Null: none.
  Posted* take_oldest() noexcept;

  std::size_t size() const noexcept { return size_; }

 private:
  std::unique_ptr<Posted[]> slots_;
  std::uint32_t size_ = 0;
  std::uint32_t limit_ = 0;  // size_, or 0 once closed
  std::uint32_t mask_ = 0;
  std::uint32_t head_ = 0;  // free-running, like the next three
  std::uint32_t clear_end_ = 0;
  std::uint32_t known_tail_ = 0;
  std::uint32_t signalled_ = 0;  // behind the last that has a work completion
  std::uint32_t signal_every_ = 1;
  std::atomic<std::uint32_t> tail_{0};
};

// What a multi-receive buffer has left for messages.
struct MultiReceive {
  std::byte* next = nullptr;
  std::uint64_t left = 0;
  std::uint32_t lkey = 0;
};

// Receives: a multi-receive buffer keeps its record while it takes messages, so records return in any order.
class ReceiveSlots {
 public:
  // The records belong to one of the two. Before that there is no room. -FI_ENOMEM.
  Status open(std::size_t size, TransferEndpoint* endpoint, SharedReceive* shared) noexcept;

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
  // The same in steps: while is_clear(), front() is free, and taken by push().
  bool is_clear() const noexcept { return head_ != known_tail_; }
  Posted& front() noexcept { return slots_[free_[head_ & mask_]]; }
  void push() noexcept { ++head_; }
  // The one taken last was not posted after all.
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
  // What a record has to know if its buffer is a multi-receive one. Null: no memory.
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

  // Both, when no work completion can come any more. Any that has not completed, completed by this. Null: none.
  Posted* take_left() noexcept;

  std::size_t size() const noexcept { return size_; }

 private:
  std::unique_ptr<Posted[]> slots_;
  std::unique_ptr<std::uint16_t[]> free_;  // ring of the numbers of free records
  std::unique_ptr<MultiReceive[]> multi_;  // beside slots_; once there was a multi-receive buffer
  std::uint32_t size_ = 0;
  std::uint32_t mask_ = 0;
  std::uint32_t head_ = 0;  // free-running: records taken so far
  std::uint32_t known_tail_ = 0;
  bool closed_ = false;
  std::atomic<std::uint32_t> tail_{0};  // records given back so far, and the first size_
};

}  // namespace weft::verbs
