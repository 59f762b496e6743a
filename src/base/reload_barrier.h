// SPDX-License-Identifier: BSD-2-Clause
// An optimization barrier for functions of the data path where every saved register counts.
#pragma once

namespace weft {

// Returns the same object through an optimization barrier: behind a call the compiler computes addresses of members
// again, which costs less than saving registers for them.
template <class T>
[[gnu::always_inline]] inline T& reload(T& object) noexcept {
  T* address = &object;
  __asm__ volatile("" : "+r"(address));
  return *address;
}

}  // namespace weft
