// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations carried out by the processor: every operation of fi_atomic(3) on every type that the language has.
// Elements that the processor updates in one step are updated so, which makes them atomic towards everything that
// updates them likewise; others (128 bits, long double, anything that is not aligned) are only as atomic as the lock
// that the caller holds.
#pragma once

#include <rdma/fi_atomic.h>

#include <cstddef>
#include <cstdint>

namespace weft::rdm {

// fi_atomic, fi_fetch_atomic, fi_compare_atomic.
enum class AtomicKind : std::uint8_t { kUpdate, kFetch, kCompare };

// Bytes of an element; 0 for a type that there is not.
std::size_t element_size(fi_datatype datatype) noexcept;

bool has_atomic(AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept;

// What a peer's memory must allow: FI_REMOTE_READ, FI_REMOTE_WRITE.
constexpr std::uint64_t atomic_access(AtomicKind kind, fi_op operation) noexcept {
  if (operation == FI_ATOMIC_READ) return FI_REMOTE_READ;
  return kind == AtomicKind::kUpdate ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
}

// Arrays of `count` elements. Only `target` need be aligned, and only to be atomic beyond the caller's lock.
struct AtomicWork {
  void* target;
  const void* operand;  // ignored by FI_ATOMIC_READ
  const void* compare;  // kCompare
  void* result;         // what was there before; null: nobody asks
  std::size_t count;
};

// has_atomic() has said yes to some kind.
void apply_atomic(fi_datatype datatype, fi_op operation, const AtomicWork& work) noexcept;

}  // namespace weft::rdm
