// SPDX-License-Identifier: BSD-2-Clause
// The command line of the bench programs.
#include <CLI/CLI.hpp>

#include "process/measurement.h"
#include "process/process_pair.h"

namespace bench {
namespace {

constexpr unsigned kLimitSeconds = 40;  // on a machine without emulation

}  // namespace

int bench_main(int argc, char** argv, std::span<const Workload> workloads) {
  Measurement m;
  unsigned limit_seconds = kLimitSeconds;
  CLI::App app{"Measures one workload between two processes on this machine and prints its metrics."};
  std::vector<std::string> names;
  for (const Workload& w : workloads) names.emplace_back(w.name);
  app.add_option("workload", m.workload, "what to measure")->required()->check(CLI::IsMember(names));
  app.add_option("--library", m.library, "path of the libfabric.so.1 to measure");
  app.add_option("--provider", m.provider, "provider of that library")->take_last();
  app.add_option("--plugins", m.plugins, "folder of its plug-ins");
  app.add_option("--address", m.address, "IPv4 address of both sides");
  app.add_option("--size", m.size, "payload bytes of one message (8 or more)")->check(CLI::Range(8u, 1u << 30));
  app.add_option("--window", m.window, "outstanding messages")->check(CLI::Range(1, 256));
  app.add_option("--connections", m.connections, "connections made; only the first carries messages");
  app.add_option("--outstanding", m.outstanding, "outstanding connects")->check(CLI::PositiveNumber);
  app.add_option("--gap", m.gap_us, "microseconds of sleep before each ping");
  app.add_flag("--busy-kernel", m.busy_kernel, "let the kernel's threads run first, which do part of the work");
  app.add_flag("--credits", m.credits, "the receiver of a stream grants credits");
  app.add_flag("--selective", m.selective, "request completions only as often as the window needs them");
  app.add_flag("--waitable", m.waitable, "poll a completion queue that has a wait object");
  app.add_flag("--reliable", m.reliable, "use reliable datagrams in place of connections");
  app.add_flag("--tagged", m.tagged, "send messages with a tag");
  app.add_flag("--untraced", m.untraced, "deny the library to read another process's memory");
  app.add_option("--turns", m.turns, "number of turns, each started by a byte on standard input")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", m.seconds, "duration of the flow of messages");
  app.add_option("--limit", limit_seconds, "seconds until a pair that hangs is killed")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  reserve_descriptors(m.connections);
  for (const Workload& w : workloads)
    if (m.workload == w.name) return run_pair(w, m, limit_seconds);
  return 1;
}

}  // namespace bench
