// SPDX-License-Identifier: BSD-2-Clause
// A row of equal message slots in page-aligned memory, registered with a protection domain. See ibv_reg_mr(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "verbs/device_node.h"

namespace bench {

class RegisteredMemory {
 public:
  RegisteredMemory(const DeviceNode& node, std::size_t size, std::size_t slots, int access)
      : stride_(round_up(size, kCacheLine)) {
    const std::size_t bytes = round_up(stride_ * slots, kPage);
    memory_.reset(check_object("aligned_alloc", static_cast<std::byte*>(std::aligned_alloc(kPage, bytes))));
    std::memset(memory_.get(), 0, bytes);
    region_ = check_object("ibv_reg_mr", ibv_reg_mr(node.pd(), memory_.get(), bytes, access));
  }
  ~RegisteredMemory() { ibv_dereg_mr(region_); }
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  std::uint64_t address(std::size_t slot) const {
    return reinterpret_cast<std::uint64_t>(memory_.get()) + slot * stride_;
  }
  std::size_t stride() const { return stride_; }
  std::uint32_t lkey() const { return region_->lkey; }
  std::uint32_t rkey() const { return region_->rkey; }

  // The word at byte `at` of a slot.
  std::uint64_t word(std::size_t slot, std::size_t at = 0) const {
    std::uint64_t value;
    std::memcpy(&value, memory_.get() + slot * stride_ + at, sizeof value);
    return value;
  }
  void set_word(std::size_t slot, std::uint64_t value) {
    std::memcpy(memory_.get() + slot * stride_, &value, sizeof value);
  }

 private:
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kPage = 4096;

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  static std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

  std::size_t stride_;
  std::unique_ptr<std::byte, Free> memory_;
  ibv_mr* region_;
};

}  // namespace bench
