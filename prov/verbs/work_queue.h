// SPDX-License-Identifier: BSD-2-Clause
// What is remembered of posted work requests until their work completions: records in arrays that are allocated once,
// as many as the queue is deep. A work request's wr_id is the address of its record.
//
// One thread posts at a time and one thread completes at a time (under the endpoint's and the channel's locks); the
// two sides meet in one atomic each, so neither takes the other's lock.
#pragma once

#include <rdma/fabric.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace weft::verbs {

class TransferEndpoint;
class SharedReceive;

struct Posted {
  enum class Role : std::uint8_t {
    kTransmit,
    kMarker,         // the last work request of an endpoint that ends: all others have completed when it has
    kReceive,        // of an endpoint
    kSharedReceive,  // of a shared receive context
  };

  void* context = nullptr;
  union {
    TransferEndpoint* endpoint = nullptr;
    SharedReceive* shared;
  };
  std::uint32_t flags = 0;  // of the completion (FI_SEND | FI_MSG ...), and FI_COMPLETION if there is to be one
  Role role = Role::kTransmit;
  bool busy = false;  // receives: posted and not completed
};

// Transmissions complete in the order they were posted in, so one that asks for no work completion is released by the
// next that has one.
class SendRing {
 public:
  // -FI_ENOMEM.
  Status open(std::size_t size, TransferEndpoint& endpoint) noexcept;

  // Poster. Null: full, or closed.
  Posted* next() noexcept { return next(0); }
  Posted* next(std::uint32_t ahead) noexcept {
    if (head_ + ahead - known_tail_ >= limit_) [[unlikely]] {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head_ + ahead - known_tail_ >= limit_) return nullptr;
    }
    return &slots_[(head_ + ahead) & mask_];
  }
  void push() noexcept { head_store(head_ + 1); }
  // Whether the work request that is about to be pushed must be signalled, so that the queue can be told empty.
  bool must_signal() const noexcept { return unsignalled_ + 1 >= signal_every_; }
  void note_signal(bool signalled) noexcept { unsignalled_ = signalled ? 0 : unsignalled_ + 1; }
  void close() noexcept { limit_ = 0; }
  bool closed() const noexcept { return limit_ == 0; }
  std::size_t room() const noexcept;

  // Completer: `slot` has a work completion; all before it have completed.
  void complete_through(const Posted& slot) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const auto index = static_cast<std::uint32_t>(&slot - slots_.get());
    tail_.store(tail + ((index - tail) & mask_) + 1, std::memory_order_release);
  }
  std::uint32_t outstanding() const noexcept {
    return posted_.load(std::memory_order_acquire) - tail_.load(std::memory_order_acquire);
  }
  // The oldest that has not completed, after the last work completion. Null: none.
  Posted* take_oldest() noexcept;

  std::size_t size() const noexcept { return size_; }

 private:
  void head_store(std::uint32_t head) noexcept {
    head_ = head;
    posted_.store(head, std::memory_order_release);
  }

  std::unique_ptr<Posted[]> slots_;
  std::uint32_t size_ = 0;
  std::uint32_t limit_ = 0;  // size_, or 0 once closed
  std::uint32_t mask_ = 0;
  std::uint32_t head_ = 0;  // free-running
  std::uint32_t known_tail_ = 0;
  std::uint32_t unsignalled_ = 0;
  std::uint32_t signal_every_ = 1;
  std::atomic<std::uint32_t> posted_{0};  // head_ for the completer
  std::atomic<std::uint32_t> tail_{0};
};

// Receives: a multi-receive buffer keeps its record while it takes messages, so records return in any order.
class ReceiveSlots {
 public:
  // `shared`: the records are a shared context's, else the endpoint's.
  Status open(std::size_t size, TransferEndpoint* endpoint, SharedReceive* shared) noexcept;

  // Poster. Null: full, or closed.
  Posted* take() noexcept {
    if (head_ == known_tail_) [[unlikely]] {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head_ == known_tail_) return nullptr;
    }
    Posted& slot = slots_[free_[head_ & mask_]];
    head_store(head_ + 1);
    slot.busy = true;
    return &slot;
  }
  // The one just taken was not posted after all.
  void untake() noexcept;
  std::size_t room() const noexcept { return tail_.load(std::memory_order_acquire) - head_; }

  // Completer.
  void give_back(Posted& slot) noexcept {
    slot.busy = false;
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    free_[tail & mask_] = index_of(slot);
    tail_.store(tail + 1, std::memory_order_release);
  }
  std::uint32_t outstanding() const noexcept {
    return size_ - (tail_.load(std::memory_order_acquire) - taken_.load(std::memory_order_acquire));
  }
  // Any that has not completed, after the last work completion. Null: none.
  Posted* take_left() noexcept;
  Posted* find(const void* context) noexcept;

  std::size_t size() const noexcept { return size_; }
  std::uint16_t index_of(const Posted& slot) const noexcept { return static_cast<std::uint16_t>(&slot - slots_.get()); }

 private:
  void head_store(std::uint32_t head) noexcept {
    head_ = head;
    taken_.store(head, std::memory_order_release);
  }

  std::unique_ptr<Posted[]> slots_;
  std::unique_ptr<std::uint16_t[]> free_;  // ring of indices of free slots
  std::uint32_t size_ = 0;
  std::uint32_t mask_ = 0;
  std::uint32_t head_ = 0;  // free-running: slots taken so far
  std::uint32_t known_tail_ = 0;
  std::atomic<std::uint32_t> taken_{0};  // head_ for the completer
  std::atomic<std::uint32_t> tail_{0};   // slots made free so far, the initial ones included
};

}  // namespace weft::verbs
