// SPDX-License-Identifier: BSD-2-Clause
// The target of an atomic operation; see atomic_target.h.
#include "rdm/atomic_target.h"

#include <algorithm>

namespace weft::rdm {

bool ReceivedAtomic::read(const Words& words, std::span<const AtomicRange> where, std::size_t len,
                          std::size_t limit) noexcept {
  if (words.kind > static_cast<unsigned>(AtomicKind::kCompare)) return false;
  kind_ = static_cast<AtomicKind>(words.kind);
  datatype_ = static_cast<fi_datatype>(words.datatype);
  operation_ = static_cast<fi_op>(words.operation);
  if (!has_atomic(kind_, datatype_, operation_)) return false;
  if (where.empty() || where.size() > kMaxAtomicRanges) return false;
  size_ = element_size(datatype_);
  std::size_t elements = 0;
  for (const AtomicRange& each : where) {
    if (each.count > limit / size_) return false;
    elements += each.count;
  }
  bytes_ = elements * size_;
  if (bytes_ > limit) return false;
  ranges_ = where.size();
  std::copy(where.begin(), where.end(), where_);
  const std::size_t arrays = kind_ == AtomicKind::kCompare ? 2 : operation_ == FI_ATOMIC_READ ? 0 : 1;
  return arrays * bytes_ == len;
}

int ReceivedAtomic::find_targets(MemoryRegions& regions, std::uint64_t since,
                                 void* (&targets)[kMaxAtomicRanges]) const noexcept {
  const std::uint64_t access = atomic_access(kind_, operation_);
  for (std::size_t i = 0; i < ranges_; ++i) {
    const AtomicRange& range = where_[i];
    const auto target = regions.check(range.key, range.addr, range.count * size_, access, since);
    if (!target) return target.error().code();
    targets[i] = *target;
  }
  return 0;
}

// FI_RMA_EVENT: for fi_endpoint(3) an operation that fetches is a read, for fi_mr(3) one that modifies is a write.
void ReceivedAtomic::count(MemoryRegions& regions, CompletionRoutes& routes) const noexcept {
  CounterCore* counter = (kind_ == AtomicKind::kUpdate ? routes.remote_write : routes.remote_read).get();
  if (counter != nullptr) counter->add(1);
  for (std::size_t i = 0; i < ranges_ && regions.has_counters(); ++i)
    regions.count_access(where_[i].key, atomic_access(kind_, operation_));
}

int ReceivedAtomic::execute(MemoryRegions& regions, CompletionRoutes& routes, const std::byte* arrays,
                            std::byte* results, std::uint64_t since) const noexcept {
  void* targets[kMaxAtomicRanges];
  if (const int error = find_targets(regions, since, targets); error != 0) return error;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < ranges_; ++i) {
    apply_atomic(datatype_, operation_,
                 {.target = targets[i],
                  .operand = operation_ == FI_ATOMIC_READ ? nullptr : arrays + offset,
                  .compare = kind_ == AtomicKind::kCompare ? arrays + bytes_ + offset : nullptr,
                  .result = kind_ == AtomicKind::kUpdate ? nullptr : results + offset,
                  .count = where_[i].count});
    offset += where_[i].count * size_;
  }
  count(regions, routes);
  return 0;
}

}  // namespace weft::rdm
