// SPDX-License-Identifier: BSD-2-Clause
// The command line of both bench programs.
#include <CLI/CLI.hpp>

#include "process/measurement.h"
#include "process/process_pair.h"

namespace bench {
namespace {

constexpr unsigned kLimitSeconds = 40;

}  // namespace

int bench_main(int argc, char** argv, std::span<const Workload> workloads) {
  Measurement m;
  CLI::App app{"Measures one workload between two processes on 127.0.0.1 and prints its metrics."};
  std::vector<std::string> names;
  for (const Workload& w : workloads) names.emplace_back(w.name);
  app.add_option("workload", m.workload, "what to measure")->required()->check(CLI::IsMember(names));
  app.add_option("--library", m.library, "path of the libfabric.so.1 to measure");
  app.add_option("--size", m.size, "payload bytes of one message (8 or more)")->check(CLI::Range(8u, 1u << 30));
  app.add_option("--window", m.window, "messages under way at once")->check(CLI::Range(1, 256));
  app.add_option("--connections", m.connections, "connections made; only the first carries messages");
  app.add_option("--outstanding", m.outstanding, "connects under way at once")->check(CLI::PositiveNumber);
  app.add_option("--gap", m.gap_us, "microseconds of sleep before each ping");
  app.add_flag("--waitable", m.waitable, "poll a completion queue that has a wait object");
  app.add_option("--seconds", m.seconds, "how long messages flow");
  CLI11_PARSE(app, argc, argv);

  reserve_descriptors(m.connections);
  for (const Workload& w : workloads)
    if (m.workload == w.name) return run_pair(w, m, kLimitSeconds);
  return 1;
}

}  // namespace bench
