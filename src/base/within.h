// SPDX-License-Identifier: BSD-2-Clause
// Lengths that are neither zero nor above a limit, compared at once on data paths.
#pragma once

#include <cstddef>

namespace weft {

// Whether `len` is in 1..most, with one comparison: 0 wraps around to the largest number.
[[gnu::always_inline]] constexpr bool within(std::size_t len, std::size_t most) noexcept {
  return len - 1 < most;
}

}  // namespace weft
