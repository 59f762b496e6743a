// SPDX-License-Identifier: BSD-2-Clause
// Which atomic operations there are: what the device does on 64-bit integers, compare-and-swap and fetch-and-add, and
// nothing that would have to be made up; fi_atomic(3), ibv_post_send(3).
//
//   update   FI_SUM                   fetch-and-add, the old value is discarded
//   fetch    FI_SUM, FI_ATOMIC_READ   fetch-and-add, of zero for a read
//   compare  FI_CSWAP                 compare-and-swap
//
// FI_ATOMIC_WRITE is not among them: a write is not atomic towards the device's atomics.
#pragma once

#include <rdma/fi_atomic.h>

#include <cstdint>

namespace weft::verbs {

class Domain;

enum class AtomicKind : std::uint8_t { kUpdate, kFetch, kCompare };

// The (only) element count of every operation there is.
inline constexpr std::size_t kAtomicCount = 1;

bool has_atomic(const Domain& domain, AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept;

}  // namespace weft::verbs
