// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations of reliable datagrams, for every protocol; fi_atomic(3). At the origin: the limits of the
// application's request and the arrays that are sent. At the target: execution by the processor of every operation on
// every type of the language. Aligned elements of up to 8 bytes are updated by one atomic instruction, so they are
// atomic with respect to all code that does the same. For other elements (128 bits, long double, unaligned ones) the
// lock of the caller is the only protection.
#pragma once

#include <rdma/fi_atomic.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "objects/atomic_request.h"
#include "objects/completion_routes.h"
#include "objects/memory_regions.h"
#include "objects/message_buffers.h"

namespace weft::rdm {

// Bytes of an element; 0: no such type.
std::size_t element_size(fi_datatype datatype) noexcept;

bool has_atomic(AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept;

// Access rights that the target memory needs: FI_REMOTE_READ, FI_REMOTE_WRITE.
constexpr std::uint64_t atomic_access(AtomicKind kind, fi_op operation) noexcept {
  if (operation == FI_ATOMIC_READ) return FI_REMOTE_READ;
  return kind == AtomicKind::kUpdate ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
}

// Arrays of `count` elements. Only `target` needs alignment, and only to be atomic beyond the lock of the caller.
struct AtomicWork {
  void* target;
  const void* operand;  // ignored by FI_ATOMIC_READ
  const void* compare;  // kCompare
  void* result;         // the former values; null: not wanted
  std::size_t count;
};

// has_atomic() must be true for some kind.
void apply_atomic(fi_datatype datatype, fi_op operation, const AtomicWork& work) noexcept;

// ---- The origin ----

// Elements that an operation may have when `limit` bytes of arrays fit into a message; 0: no such operation.
std::size_t atomic_count(std::size_t limit, AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept;

// The slot of fi_ops_domain, for the same limit.
int query_atomic(std::size_t limit, fi_datatype datatype, fi_op operation, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept;

// The buffers of a checked request: the arrays that are sent (operands, then comparands), and the destination of the
// fetched results.
class AtomicBuffers {
 public:
  explicit AtomicBuffers(const AtomicRequest& request) noexcept;

  std::span<const iovec> sent() const noexcept { return {sent_, sent_count_}; }
  std::span<const iovec> results() const noexcept { return {results_, result_count_}; }

 private:
  iovec sent_[2 * kIovLimit];
  iovec results_[kIovLimit];
  std::size_t sent_count_ = 0, result_count_ = 0;
};

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
