// SPDX-License-Identifier: BSD-2-Clause
// The check of atomic requests; see atomic_request.h.
#include "objects/atomic_request.h"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "objects/message_buffers.h"

namespace weft {
namespace {

// Elements of the whole list; more than `limit` for an invalid list.
template <class Ioc>
std::size_t total_count(std::span<const Ioc> list, std::size_t limit) noexcept {
  std::size_t count = 0;
  for (const Ioc& each : list) {
    if (each.count > limit) return limit + 1;
    count += each.count;
  }
  return count;
}

bool holds(std::span<const fi_ioc> list, std::size_t count) noexcept {
  return list.size() <= kIovLimit && total_count(list, count) == count &&
         std::all_of(list.begin(), list.end(),
                     [](const fi_ioc& each) { return each.addr != nullptr || each.count == 0; });
}

}  // namespace

int check_atomic(const AtomicRequest& request, std::size_t most) noexcept {
  if (most == 0) return -FI_EOPNOTSUPP;
  if (request.remote.data() == nullptr || request.remote.size() > kMaxAtomicRanges) return -FI_EINVAL;
  const std::size_t count = total_count(request.remote, most);
  if (count == 0) return -FI_EINVAL;
  if (count > most) return -FI_EMSGSIZE;
  if (request.operation != FI_ATOMIC_READ && !holds(request.operands, count)) return -FI_EINVAL;
  if (request.kind == AtomicKind::kCompare && !holds(request.compares, count)) return -FI_EINVAL;
  if (request.kind != AtomicKind::kUpdate && !holds(request.results, count)) return -FI_EINVAL;
  return (request.flags & FI_REMOTE_CQ_DATA) != 0 ? -FI_EBADFLAGS : 0;
}

}  // namespace weft
