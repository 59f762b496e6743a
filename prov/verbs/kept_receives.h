// SPDX-License-Identifier: BSD-2-Clause
// Receives that were posted before there was a queue pair to post them to; rdma_cm makes one when it knows the device's
// port. They can still be cancelled. The owner's lock for receives guards it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "verbs/work_queue.h"

namespace weft::verbs {

// A receive as the calls of fi_msg(3) ask for it.
struct ReceiveWork {
  ibv_sge* sges;
  int count;
  std::uint32_t len;    // bytes the application's buffers hold
  std::uint32_t flags;  // of Posted
  void* context;
  MultiReceive multi;  // FI_MULTI_RECV
};

class KeptReceives {
 public:
  // Null: no memory.
  static std::unique_ptr<KeptReceives> make(std::size_t size, std::size_t sge_limit) noexcept {
    std::unique_ptr<KeptReceives> kept(new (std::nothrow) KeptReceives);
    if (kept == nullptr) return nullptr;
    kept->size_ = size;
    kept->sge_limit_ = sge_limit;
    kept->works_.reset(new (std::nothrow) ReceiveWork[size]);
    kept->sges_.reset(new (std::nothrow) ibv_sge[size * sge_limit]);
    return kept->works_ != nullptr && kept->sges_ != nullptr ? std::move(kept) : nullptr;
  }

  std::size_t count() const noexcept { return count_; }
  bool full() const noexcept { return count_ == size_; }
  void add(const ReceiveWork& work) noexcept {
    ReceiveWork& kept = works_[count_];
    kept = work;
    kept.sges = &sges_[count_ * sge_limit_];
    std::memcpy(kept.sges, work.sges, sizeof(ibv_sge) * static_cast<std::size_t>(work.count));
    ++count_;
  }
  ReceiveWork& operator[](std::size_t i) noexcept { return works_[i]; }
  // Takes the oldest with this context out; false: there is none.
  bool remove(const void* context, ReceiveWork& removed) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (works_[i].context != context) continue;
      removed = works_[i];
      for (std::size_t j = i + 1; j < count_; ++j) {
        ibv_sge* const sges = works_[j - 1].sges;
        std::memcpy(sges, works_[j].sges, sizeof(ibv_sge) * static_cast<std::size_t>(works_[j].count));
        works_[j - 1] = works_[j];
        works_[j - 1].sges = sges;
      }
      --count_;
      return true;
    }
    return false;
  }

 private:
  std::unique_ptr<ReceiveWork[]> works_;
  std::unique_ptr<ibv_sge[]> sges_;
  std::size_t size_ = 0;
  std::size_t sge_limit_ = 1;
  std::size_t count_ = 0;
};

}  // namespace weft::verbs
