// SPDX-License-Identifier: BSD-2-Clause
// The origin's part in atomic operations of reliable datagrams, whatever their protocol: what an application may ask
// for, and what of it travels; fi_atomic(3).
#pragma once

#include <rdma/fi_atomic.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "objects/completion_routes.h"
#include "objects/message_buffers.h"
#include "rdm/atomics.h"

namespace weft::rdm {

// Ranges of the peer's memory in one operation.
inline constexpr std::size_t kMaxAtomicRanges = 4;

// An update of a peer's memory.
struct AtomicRequest {
  AtomicKind kind;
  fi_datatype datatype;
  fi_op operation;
  std::span<const fi_ioc> operands;
  std::span<const fi_ioc> compares = {};
  std::span<const fi_ioc> results = {};
  std::span<const fi_rma_ioc> remote;
  fi_addr_t peer;
  std::uint64_t flags;
  void* context = nullptr;
  bool silent = false;
  CompletionRoutes* routes = nullptr;  // see TransmitRequest
};

// Elements that an operation may have where `limit` bytes of arrays may travel with it; 0: there is none such.
std::size_t atomic_count(std::size_t limit, AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept;

// The slot of fi_ops_domain, for the same limit.
int query_atomic(std::size_t limit, fi_datatype datatype, fi_op operation, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept;

// 0, or what is wrong with a request: -FI_EOPNOTSUPP, -FI_EINVAL, -FI_EMSGSIZE, -FI_EBADFLAGS. `most`: its
// atomic_count().
int check_atomic(const AtomicRequest& request, std::size_t most) noexcept;

// What of a request that has passed travels: its operands, and behind them what they are compared with; and where what
// is fetched belongs.
class AtomicBuffers {
 public:
  explicit AtomicBuffers(const AtomicRequest& request) noexcept;

  std::span<const iovec> sent() const noexcept { return {sent_, sent_count_}; }
  std::span<const iovec> results() const noexcept { return {results_, result_count_}; }

 private:
  iovec sent_[2 * kSoftwareIovLimit];
  iovec results_[kSoftwareIovLimit];
  std::size_t sent_count_ = 0, result_count_ = 0;
};

}  // namespace weft::rdm
