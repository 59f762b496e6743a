// SPDX-License-Identifier: BSD-2-Clause
// Allocations that fail on demand, for tests of -FI_ENOMEM; fi_errno(3). A program that links failing_allocations.cc
// gets malloc, calloc and realloc (and so operator new, strdup and the libraries) that fail where a test wants it.
#pragma once

#include <cstddef>

namespace weft::test {

// While one exists, the `nth` allocation of its thread fails (1: the first), and with `all` every one after it, too.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::size_t nth, bool all = false) noexcept;
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  // False while fewer than `nth` allocations have happened.
  bool failed() const noexcept;

  // Sanitizers bring an allocator of their own: then nothing ever fails.
  static bool supported() noexcept;
};

// Calls `run(nth)` with an allocation that fails for nth = 1, 2, ... until a run makes fewer allocations.
template <class Run>
void fail_each_allocation(Run run, bool all = false) {
  for (std::size_t nth = 1; FailingAllocation::supported(); ++nth) {
    if (!run(nth, all)) return;
  }
}

}  // namespace weft::test
