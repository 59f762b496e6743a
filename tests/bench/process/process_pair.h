// SPDX-License-Identifier: BSD-2-Clause
// A measurement is a pair of processes, server and client, each pinned to a core of its own, with a channel between
// them for set-up. They answer on standard output, one line per fact: "metric NAME VALUE", "skip REASON" or "fail
// REASON".
#pragma once

#include <cstdint>
#include <string>

#include "process/measurement.h"

namespace bench {

inline constexpr int kExitSkipped = 77;

// One end of the set-up channel. Every call blocks until done and ends the process when the other side has exited.
class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  void put(std::uint64_t value);
  std::uint64_t get();
  bool ready() const;  // get() would not block

 private:
  int fd_;
};

// Runs both halves and returns the exit code for the pair. A side that hangs is killed after limit_seconds.
int run_pair(const Workload& workload, const Measurement& measurement, unsigned limit_seconds);

void report(const char* metric, double value);
void say(const char* line);
[[noreturn]] void skip(const std::string& reason);
[[noreturn]] void fail(const std::string& reason);
// For calls that answer -1 and set errno; passes every other value through.
long check(const char* what, long result);

// Lifts RLIMIT_NOFILE to the hard limit, and skips when that does not leave room for `connections` descriptors.
void reserve_descriptors(unsigned connections);

// After a poll that found nothing: where both sides share one core, the other continues.
void yield_if_shared();

std::uint64_t now_ns();

}  // namespace bench
