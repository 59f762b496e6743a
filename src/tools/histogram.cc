// SPDX-License-Identifier: BSD-2-Clause
// Percentiles of a log-linear histogram; see histogram.h.
#include "histogram.h"

#include <algorithm>
#include <cmath>

namespace weft::tools {

uint64_t Histogram::percentile(double percent) const noexcept {
  static_assert(index_of(~uint64_t{0}) == kCells - 1 && highest_in(kCells - 1) == ~uint64_t{0});
  static_assert(highest_in(index_of(1000)) >= 1000 && highest_in(index_of(1000) - 1) < 1000);
  if (count_ == 0) return 0;
  // The small correction keeps 55 % of 200 at 110, where the division gives 110.00000000000001.
  const double wanted = std::ceil(percent * static_cast<double>(count_) / 100 - 1e-6);
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t seen = 0;
  for (std::size_t i = 0; i < kCells; ++i)
    if ((seen += counts_[i]) >= rank) return std::min(highest_in(i), max_);
  return max_;
}

}  // namespace weft::tools
