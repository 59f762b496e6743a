// SPDX-License-Identifier: BSD-2-Clause
// The target's part in atomic operations of reliable datagrams, whatever their protocol: what a peer asks for is
// checked, carried out and counted; fi_atomic(3), fi_mr(3). Nothing that a peer says is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "objects/completion_routes.h"
#include "objects/memory_regions.h"
#include "rdm/atomic_origin.h"

namespace weft::rdm {

// A range of the target's memory, in elements.
struct AtomicRange {
  std::uint64_t addr = 0;
  std::uint64_t count = 0;
  std::uint64_t key = 0;
};

// What a peer asks for.
class AtomicDemand {
 public:
  // As the peer's bytes have it: any of these may be out of range.
  struct Words {
    unsigned kind;       // an AtomicKind
    unsigned datatype;   // an fi_datatype
    unsigned operation;  // an fi_op
  };

  // False for what makes no sense: no such operation, no ranges or too many, arrays of more than `limit` bytes, or
  // others than `len` bytes of them.
  bool read(const Words& words, std::span<const AtomicRange> where, std::size_t len, std::size_t limit) noexcept;

  // What is fetched.
  std::size_t result_len() const noexcept { return kind_ == AtomicKind::kUpdate ? 0 : bytes_; }

  // `arrays`: the operands, then what they are compared with. All of it, or a negative error and nothing is touched.
  // The caller holds the lock that makes it atomic.
  int carry_out(MemoryRegions& regions, CompletionRoutes& routes, const std::byte* arrays,
                std::byte* results) const noexcept;

 private:
  int find_targets(MemoryRegions& regions, void* (&targets)[kMaxAtomicRanges]) const noexcept;
  void count(MemoryRegions& regions, CompletionRoutes& routes) const noexcept;

  AtomicKind kind_ = AtomicKind::kUpdate;
  fi_datatype datatype_ = FI_INT8;
  fi_op operation_ = FI_MIN;
  std::size_t size_ = 0;   // of an element
  std::size_t bytes_ = 0;  // of one array
  std::size_t ranges_ = 0;
  AtomicRange where_[kMaxAtomicRanges];
};

}  // namespace weft::rdm
