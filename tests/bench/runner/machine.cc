// SPDX-License-Identifier: BSD-2-Clause
// What the numbers depend on; see machine.h.
#include "runner/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <ctime>
#include <fstream>

namespace bench {
namespace {

std::string processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

unsigned usable_cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<unsigned>(CPU_COUNT(&allowed)) : 1;
}

}  // namespace

Machine describe_machine() {
  struct sysinfo info {};
  sysinfo(&info);
  utsname system{};
  uname(&system);
  const double gib = static_cast<double>(info.totalram) * info.mem_unit / (1u << 30);
  const double load = static_cast<double>(info.loads[0]) / (1u << SI_LOAD_SHIFT);
  return {fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))),
          processor(),
          usable_cores(),
          fmt::format("{:.0f} GiB", gib),
          fmt::format("{} {} {}", system.sysname, system.release, system.machine),
          fmt::format("{:.1f}", load)};
}

std::string to_line(const Machine& m) {
  return fmt::format("{}, {}, {} cores, {}, {}", m.date, m.processor, m.cores, m.memory, m.kernel);
}

}  // namespace bench
