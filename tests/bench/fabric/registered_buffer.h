// SPDX-License-Identifier: BSD-2-Clause
// A row of equal message slots in page-aligned memory, registered with a domain. Governed by fi_mr(3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "fabric/fabric_node.h"

namespace bench {

class RegisteredBuffer {
 public:
  RegisteredBuffer(const FabricNode& node, std::size_t size, std::size_t slots, std::uint64_t access);
  ~RegisteredBuffer();
  RegisteredBuffer(const RegisteredBuffer&) = delete;
  RegisteredBuffer& operator=(const RegisteredBuffer&) = delete;

  std::byte* slot(std::size_t index) { return memory_.get() + index * stride_; }
  std::size_t stride() const { return stride_; }
  void* descriptor() const { return fi_mr_desc(region_); }

  // The target of a peer's RMA: the address of the first slot (an offset where the domain requires one) and the key.
  std::uint64_t remote_address() const { return remote_address_; }
  std::uint64_t key() const { return fi_mr_key(region_); }

  // The word at byte `at` of a slot.
  std::uint64_t word(std::size_t index, std::size_t at = 0) {
    std::uint64_t value;
    std::memcpy(&value, slot(index) + at, sizeof value);
    return value;
  }
  void set_word(std::size_t index, std::uint64_t value, std::size_t at = 0) {
    std::memcpy(slot(index) + at, &value, sizeof value);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  std::size_t stride_;
  std::unique_ptr<std::byte, Free> memory_;
  std::uint64_t remote_address_ = 0;
  fid_mr* region_ = nullptr;
};

}  // namespace bench
