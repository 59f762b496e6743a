// SPDX-License-Identifier: BSD-2-Clause
// The resources of this process so far; see process_cost.h.
#include "process/process_cost.h"

#include <linux/perf_event.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "process/process_pair.h"

namespace bench {
namespace {

std::uint64_t nanoseconds(const timeval& t) {
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_usec) * 1000u;
}

std::uint64_t read_bytes(const char* file, const char* name) {
  std::ifstream text(file);
  for (std::string word; text >> word;) {
    std::uint64_t kib = 0;
    if (word == name && text >> kib) return kib * 1024;
  }
  fail(std::string(file) + " has no " + name);
}

}  // namespace

std::uint64_t cpu_time_ns() {
  rusage usage{};
  check("getrusage", getrusage(RUSAGE_SELF, &usage));
  return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
}

std::uint64_t private_bytes() {
  return read_bytes("/proc/self/smaps_rollup", "Private_Dirty:");
}

std::uint64_t available_bytes() {
  return read_bytes("/proc/meminfo", "MemAvailable:");
}

std::uint64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

InstructionCounter::InstructionCounter() {
  perf_event_attr attr{};
  attr.type = PERF_TYPE_HARDWARE;
  attr.size = sizeof attr;
  attr.config = PERF_COUNT_HW_INSTRUCTIONS;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  fd_ = static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

InstructionCounter::~InstructionCounter() {
  if (fd_ >= 0) close(fd_);
}

std::optional<std::uint64_t> InstructionCounter::get() const {
  std::uint64_t count = 0;
  if (fd_ < 0 || read(fd_, &count, sizeof count) != sizeof count) return std::nullopt;
  return count;
}

void OperationCost::finish(std::uint64_t operations) const {
  const auto per_operation = [operations](std::uint64_t n) {
    return static_cast<double>(n) / static_cast<double>(operations);
  };
  if (const auto now = allocation_count(); now && allocations_)
    report("allocations_per_op", per_operation(*now - *allocations_));
  if (const auto now = counter_.get(); now && instructions_)
    report("instructions_per_op", per_operation(*now - *instructions_));
}

}  // namespace bench
