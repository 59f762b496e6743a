// SPDX-License-Identifier: BSD-2-Clause
// The origin of an atomic operation of reliable datagrams, for every protocol: the limits of the application's request
// and the arrays that are sent; fi_atomic(3).
#pragma once

#include <rdma/fi_atomic.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "messages/atomic_request.h"
#include "objects/message_buffers.h"
#include "rdm/atomics.h"

namespace weft::rdm {

using messages::AtomicRequest;
using messages::check_atomic;
using messages::kMaxAtomicRanges;

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
  iovec sent_[2 * kSoftwareIovLimit];
  iovec results_[kSoftwareIovLimit];
  std::size_t sent_count_ = 0, result_count_ = 0;
};

}  // namespace weft::rdm
