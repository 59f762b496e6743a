// SPDX-License-Identifier: BSD-2-Clause
// Help for functions of the data path where every saved register and branch counts.
#pragma once

#include <cstddef>

namespace weft {

// Returns the same object through an optimization barrier: after a call the compiler computes addresses of members
// again, which costs less than saving registers for them.
template <class T>
[[gnu::always_inline]] inline T& reload(T& object) noexcept {
  T* address = &object;
  __asm__ volatile("" : "+r"(address));
  return *address;
}

// Whether a length `len` is in 1..most, with one comparison: 0 wraps around to the largest number.
[[gnu::always_inline]] constexpr bool within(std::size_t len, std::size_t most) noexcept {
  return len - 1 < most;
}

}  // namespace weft
