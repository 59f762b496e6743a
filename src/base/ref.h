// SPDX-License-Identifier: BSD-2-Clause
// Counted references from children to parents. A parent outlives its children: its close answers -FI_EBUSY while
// in_use(). The count is a use count, not an owner: the C handle owns the object.
#pragma once

#include <atomic>
#include <utility>

namespace weft {

class RefCounted {
 public:
  bool in_use() const noexcept { return users_.load(std::memory_order_acquire) != 0; }

 private:
  template <class T>
  friend class Ref;
  std::atomic<unsigned> users_{0};
};

// Thread-safety: distinct Refs may be used from distinct threads; one Ref is not shared.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  explicit Ref(T& target) noexcept : target_(&target) { target.users_.fetch_add(1, std::memory_order_relaxed); }
  Ref(const Ref& other) noexcept : Ref() {
    if (other.target_ != nullptr) *this = Ref(*other.target_);
  }
  Ref(Ref&& other) noexcept : target_(std::exchange(other.target_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(target_, other.target_);
    return *this;
  }
  ~Ref() {
    if (target_ != nullptr) target_->users_.fetch_sub(1, std::memory_order_release);
  }

  T* get() const noexcept { return target_; }
  T* operator->() const noexcept { return target_; }
  T& operator*() const noexcept { return *target_; }
  explicit operator bool() const noexcept { return target_ != nullptr; }

 private:
  T* target_ = nullptr;
};

}  // namespace weft
