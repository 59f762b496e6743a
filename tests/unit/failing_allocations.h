// SPDX-License-Identifier: BSD-2-Clause
// Allocations that fail on demand, for tests of -FI_ENOMEM; fi_errno(3). A program that links failing_allocations.cc
// gets malloc and its relatives (and so operator new, strdup and the libraries) that fail where a test wants it.
#pragma once

#include <cstddef>

namespace weft::test {

// While one exists, `count` allocations of its thread fail, from the `nth` on (1: the first).
class FailingAllocation {
 public:
  static constexpr std::size_t kAll = ~std::size_t{0};
  explicit FailingAllocation(std::size_t nth, std::size_t count = 1) noexcept;
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  // False while fewer than `nth` allocations have happened.
  bool failed() const noexcept;

  // Some sanitizers bring an allocator of their own: then nothing ever fails.
  static bool supported() noexcept;
  // False with the address sanitizer: only operator new fails, and blocks are not counted.
  static bool complete() noexcept;
};

// Allocations of this thread neither fail nor count while the sum of all changes is positive: those of a test, or of a
// fake.
void spare_allocations(int change) noexcept;

// spare_allocations() with +1 or -1, to the end of a scope.
template <int kChange>
class ChangedAllocations {
 public:
  ChangedAllocations() noexcept { spare_allocations(kChange); }
  ~ChangedAllocations() { spare_allocations(-kChange); }
  ChangedAllocations(const ChangedAllocations&) = delete;
  ChangedAllocations& operator=(const ChangedAllocations&) = delete;
};
using SparedAllocations = ChangedAllocations<1>;
using ExposedAllocations = ChangedAllocations<-1>;  // within the other

// Blocks that are allocated and not freed, by all threads; those do not count that a spared thread has allocated.
long live_allocations() noexcept;

// Calls `run(nth)` with an allocation that fails for nth = 1, 2, ... until a run makes fewer allocations.
template <class Run>
void fail_each_allocation(Run run, std::size_t count = 1) {
  for (std::size_t nth = 1; FailingAllocation::supported(); ++nth) {
    if (!run(nth, count)) return;
  }
}

}  // namespace weft::test
