// SPDX-License-Identifier: BSD-2-Clause
// Buffers for packets, each for a header and an eager message, registered with the lower provider if it requires that.
#pragma once

#include <memory>
#include <vector>

#include "base/list.h"
#include "rxm/lower.h"

namespace weft::rxm {

class Domain;

struct Buffer : ListHook<Buffer> {
  std::byte* bytes = nullptr;
  void* desc = nullptr;
};

// The pool of one endpoint; its memory is that of the largest number in use at once. The engine's mutex guards it. The
// lower provider must have returned every buffer before the pool is destroyed.
class Buffers {
 public:
  Buffers(Domain& domain, std::size_t size) noexcept : domain_(domain), size_(size) {}

  std::size_t size() const noexcept { return size_; }
  // nullptr when memory runs out.
  Buffer* take() noexcept {
    if (free_.empty() && !grow()) return nullptr;
    return &free_.pop_front();
  }
  void give_back(Buffer& buffer) noexcept { free_.push_front(buffer); }

 private:
  struct Slab {
    std::unique_ptr<std::byte[]> bytes;
    Lower<fid_mr> region;
    std::unique_ptr<Buffer[]> buffers;
  };
  bool grow() noexcept;

  Domain& domain_;
  const std::size_t size_;
  std::vector<Slab> slabs_;
  List<Buffer> free_;
};

}  // namespace weft::rxm
