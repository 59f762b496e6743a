// SPDX-License-Identifier: BSD-2-Clause
// The output of fi_pingpong: the table row by row, the percentiles, one JSON document, the progress line.
// fi_pingpong(1) OUTPUT.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ping_pong.h"

namespace weft::tools {

// The printed numbers of a test. The time of one transfer is half a round trip, in microseconds.
struct Summary {
  std::size_t size = 0;
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t total_bytes = 0;  // both ways
  double seconds = 0;
  double megabytes_per_second = 0;  // 10^6 bytes
  double usec_per_transfer = 0;
  double million_transfers_per_second = 0;
  uint64_t samples = 0;
  double min = 0, mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};
Summary summarize(const TestResult& result);

std::string table_header();
std::string table_row(const Summary& summary);
std::string percentile_table(const std::vector<Summary>& tests);

// The properties of a run. Empty strings are omitted from the JSON text.
struct RunDescription {
  std::string version;
  bool client = false;
  std::string provider, fabric, domain, endpoint, protocol;
  bool tagged = false;
  bool checked = false;
  std::string error;  // reason for an early end
};
std::string json_document(const RunDescription& run, const std::vector<Summary>& tests);

// One line on standard error, rewritten a few times a second; nothing for short tests.
class ProgressLine {
 public:
  ProgressLine(bool enabled, uint64_t iterations) : enabled_(enabled), iterations_(iterations) {}

  void tick(const TestResult& so_far, Clock::time_point now) {
    if (enabled_ && now >= next_) show(so_far, now);
  }
  // Call before any other output, and at the end of a test.
  void clear() {
    if (std::exchange(visible_, false)) fmt::print(stderr, "\r\033[K");
  }

 private:
  void show(const TestResult& so_far, Clock::time_point now);

  bool enabled_;
  uint64_t iterations_;
  bool visible_ = false;
  Clock::time_point next_{};
};

}  // namespace weft::tools
