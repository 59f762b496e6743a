// SPDX-License-Identifier: BSD-2-Clause
// The target of an atomic operation of reliable datagrams, for every protocol: the peer's request is checked, executed
// and counted; fi_atomic(3), fi_mr(3). No field of it is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "objects/completion_routes.h"
#include "objects/memory_regions.h"
#include "rdm/atomics.h"

namespace weft::rdm {

using AtomicRange = fi_rma_ioc;  // the target's memory, in elements

// A peer's atomic operation.
class ReceivedAtomic {
 public:
  // The fields as they were received: each may be out of range.
  struct Words {
    unsigned kind;       // an AtomicKind
    unsigned datatype;   // an fi_datatype
    unsigned operation;  // an fi_op
  };

  // False for an invalid request: an unknown operation, no ranges or too many, arrays of more than `limit` bytes or of
  // another total than `len`.
  bool read(const Words& words, std::span<const AtomicRange> where, std::size_t len, std::size_t limit) noexcept;

  // Bytes that are fetched.
  std::size_t result_len() const noexcept { return kind_ == AtomicKind::kUpdate ? 0 : bytes_; }

  // `arrays`: the operands, then the comparands. Executes the whole operation, or returns a negative error and changes
  // nothing. Regions that were registered after `since`, when the request began to arrive, do not count. The caller
  // holds the lock that makes it atomic.
  int execute(MemoryRegions& regions, CompletionRoutes& routes, const std::byte* arrays, std::byte* results,
              std::uint64_t since = MemoryRegions::kLatest) const noexcept;

 private:
  int find_targets(MemoryRegions& regions, std::uint64_t since, void* (&targets)[kMaxAtomicRanges]) const noexcept;
  void count(MemoryRegions& regions, CompletionRoutes& routes) const noexcept;

  AtomicKind kind_ = AtomicKind::kUpdate;
  fi_datatype datatype_ = FI_INT8;
  fi_op operation_ = FI_MIN;
  std::size_t size_ = 0;   // bytes of an element
  std::size_t bytes_ = 0;  // bytes of one array
  std::size_t ranges_ = 0;
  AtomicRange where_[kMaxAtomicRanges];
};

}  // namespace weft::rdm
