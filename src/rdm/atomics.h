// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations executed by the processor: every operation of fi_atomic(3) on every type of the language. Aligned
// elements of up to 8 bytes are updated by one atomic instruction, so they are atomic with respect to all code that
// does the same. For other elements (128 bits, long double, unaligned ones) the lock of the caller is the only
// protection.
#pragma once

#include <rdma/fi_atomic.h>

#include <cstddef>
#include <cstdint>

#include "messages/atomic_request.h"

namespace weft::rdm {

using messages::AtomicKind;

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

}  // namespace weft::rdm
