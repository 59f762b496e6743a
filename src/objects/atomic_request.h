// SPDX-License-Identifier: BSD-2-Clause
// The request of an atomic call, and its check; fi_atomic(3).
#pragma once

#include <rdma/fi_atomic.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

struct CompletionRoutes;

// fi_atomic, fi_fetch_atomic, fi_compare_atomic.
enum class AtomicKind : std::uint8_t { kUpdate, kFetch, kCompare };

// Ranges of the peer's memory in one operation.
inline constexpr std::size_t kMaxAtomicRanges = 4;

// An atomic operation on a peer's memory.
struct AtomicRequest {
  AtomicKind kind;
  fi_datatype datatype;
  fi_op operation;
  std::span<const fi_ioc> operands;
  std::span<const fi_ioc> compares = {};
  std::span<const fi_ioc> results = {};
  void* const* result_desc = nullptr;
  std::span<const fi_rma_ioc> remote;
  fi_addr_t peer;
  std::uint64_t flags;
  void* context = nullptr;
  bool silent = false;
  CompletionRoutes* routes = nullptr;  // see TransmitRequest
};

// 0, -FI_EOPNOTSUPP, -FI_EINVAL, -FI_EMSGSIZE or -FI_EBADFLAGS. `most`: elements that such an operation may
// have; 0: no such operation.
int check_atomic(const AtomicRequest& request, std::size_t most) noexcept;

}  // namespace weft
