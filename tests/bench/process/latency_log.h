// SPDX-License-Identifier: BSD-2-Clause
// Collects round trip times without allocating while the clock runs, and reports half of them as one-way latency.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "process/process_pair.h"

namespace bench {

class LatencyLog {
 public:
  LatencyLog() : round_trips_ns_(kCapacity) {}  // touches every page now, not while measuring

  bool full() const { return count_ == kCapacity; }
  void add(std::uint64_t round_trip_ns) { round_trips_ns_[count_++] = static_cast<std::uint32_t>(round_trip_ns); }
  std::size_t count() const { return count_; }

  void report_half_round_trips() {
    if (count_ == 0) fail("no round trip was completed");
    std::sort(round_trips_ns_.begin(), round_trips_ns_.begin() + static_cast<std::ptrdiff_t>(count_));
    report("latency_us", half_us(0.5));
    report("latency_p99_us", half_us(0.99));
    report("latency_min_us", half_us(0));
  }

 private:
  static constexpr std::size_t kCapacity = std::size_t{1} << 18;

  double half_us(double quantile) const {
    const auto index = static_cast<std::size_t>(quantile * static_cast<double>(count_ - 1));
    return round_trips_ns_[index] / 2000.0;
  }

  std::vector<std::uint32_t> round_trips_ns_;
  std::size_t count_ = 0;
};

}  // namespace bench
