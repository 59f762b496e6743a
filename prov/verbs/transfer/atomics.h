// SPDX-License-Identifier: BSD-2-Clause
// The supported atomic operations: those of the device on 64-bit integers, compare-and-swap and fetch-and-add, and no
// emulated ones; fi_atomic(3), ibv_post_send(3).
//
//   update   FI_SUM                   fetch-and-add, the old value is discarded
//   fetch    FI_SUM, FI_ATOMIC_READ   fetch-and-add, of zero for a read
//   compare  FI_CSWAP                 compare-and-swap
//
// FI_ATOMIC_WRITE is not supported: a write is not atomic towards the device's atomics.
#pragma once

#include <rdma/fi_atomic.h>

#include "messages/atomic_request.h"

namespace weft::verbs {

class DomainServices;

using messages::AtomicKind;

// The element count of every supported operation.
inline constexpr std::size_t kAtomicCount = 1;

bool has_atomic(const DomainServices& domain, AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept;

}  // namespace weft::verbs
