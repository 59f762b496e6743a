// SPDX-License-Identifier: BSD-2-Clause
// For functions of the data path in which every register that has to be saved shows.
#pragma once

namespace weft {

// The same object, of which the compiler forgets what it knows: behind a call it computes addresses of members again,
// which costs less than the registers that would have to be saved for them.
template <class T>
[[gnu::always_inline]] inline T& unremembered(T& object) noexcept {
  T* address = &object;
  __asm__ volatile("" : "+r"(address));
  return *address;
}

}  // namespace weft
