// SPDX-License-Identifier: BSD-2-Clause
// The origin of an atomic operation; see atomic_origin.h.
#include "rdm/atomic_origin.h"

#include <rdma/fi_errno.h>

namespace weft::rdm {

std::size_t atomic_count(std::size_t limit, AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept {
  if (!has_atomic(kind, datatype, operation)) return 0;
  const std::size_t arrays = kind == AtomicKind::kCompare ? 2 : 1;
  return limit / arrays / element_size(datatype);
}

int query_atomic(std::size_t limit, fi_datatype datatype, fi_op operation, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept {
  if (attr == nullptr) return -FI_EINVAL;
  if (flags != 0 && flags != FI_FETCH_ATOMIC && flags != FI_COMPARE_ATOMIC) return -FI_EBADFLAGS;
  const AtomicKind kind = flags == 0                 ? AtomicKind::kUpdate
                          : flags == FI_FETCH_ATOMIC ? AtomicKind::kFetch
                                                     : AtomicKind::kCompare;
  const std::size_t count = atomic_count(limit, kind, datatype, operation);
  if (count == 0) return -FI_EOPNOTSUPP;
  attr->count = count;
  attr->size = element_size(datatype);
  return 0;
}

AtomicBuffers::AtomicBuffers(const AtomicRequest& request) noexcept {
  const std::size_t size = element_size(request.datatype);
  const auto add = [size](iovec* list, std::size_t& count, std::span<const fi_ioc> pieces) {
    for (const fi_ioc& each : pieces) list[count++] = {each.addr, each.count * size};
  };
  if (request.operation != FI_ATOMIC_READ) add(sent_, sent_count_, request.operands);
  if (request.kind == AtomicKind::kCompare) add(sent_, sent_count_, request.compares);
  if (request.kind != AtomicKind::kUpdate) add(results_, result_count_, request.results);
}

}  // namespace weft::rdm
