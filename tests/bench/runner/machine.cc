// SPDX-License-Identifier: BSD-2-Clause
// The conditions of a run; see machine.h.
#include "runner/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>

namespace bench {
namespace {

std::string processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

// tests/rxe/run.sh, which may have started a virtual machine, sets these.
std::string place(const std::string& host) {
  const char* const lab = std::getenv("RXE_LAB");
  const char* const device = std::getenv("RXE_DEVICE");
  if (lab == nullptr || device == nullptr) return {};
  if (std::string_view(lab) == "native") return fmt::format("device {}", device);
  return host.empty() ? "in a VM with Soft-RoCE" : fmt::format("in a VM with Soft-RoCE on {}", host);
}

unsigned usable_cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<unsigned>(CPU_COUNT(&allowed)) : 1;
}

}  // namespace

Machine describe_machine(const std::string& host) {
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
          fmt::format("{:.1f}", load),
          place(host)};
}

std::string to_line(const Machine& m) {
  return fmt::format("{}, {}, {} cores, {}, {}{}{}", m.date, m.processor, m.cores, m.memory, m.kernel,
                     m.place.empty() ? "" : ", ", m.place);
}

}  // namespace bench
