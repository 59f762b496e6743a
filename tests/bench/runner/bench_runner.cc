// SPDX-License-Identifier: BSD-2-Clause
// bench_runner: starts every measurement of a plan for weft, stock libfabric and the raw program in turns, and reports.
// Exit code 1 when a measurement failed; a missed target is a result, not a failure.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "runner/child_process.h"
#include "runner/machine.h"
#include "runner/plan.h"
#include "runner/report.h"
#include "runner/results.h"

namespace {

using namespace bench;

constexpr const char* kStockLibrary = "/usr/lib/x86_64-linux-gnu/libfabric.so.1";

struct Options {
  std::string plan = "tcp";
  std::string address;
  std::string weft;
  std::string plugins;
  std::string stock = kStockLibrary;
  std::string programs;
  std::string output;
  std::string command;
  std::string host;
  std::string only;
  unsigned rounds = 0;
  bool quick = false;
  bool full = false;
  bool counted = false;
};

// The command of one measurement, or empty when this contestant does not take part.
std::vector<std::string> command(const Options& options, const Plan& plan, const Run& run, Contestant contestant) {
  const bool raw = contestant == Contestant::kRaw;
  const std::string& library = contestant == Contestant::kStock ? options.stock : options.weft;
  if (raw ? !run.raw : library.empty()) return {};
  if (contestant == Contestant::kStock && !run.stock) return {};
  std::vector<std::string> arguments = {options.programs + "/" + (raw ? plan.raw_program : "fabric_bench")};
  const auto add = [&](const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  add(run.arguments);
  add(plan.common_arguments);
  if (raw) add(plan.raw_arguments);
  if (raw && plan.raw_program != "fabric_bench") return arguments;
  if (!raw) add(plan.fabric_arguments);
  if (contestant == Contestant::kStock) add(plan.stock_arguments);
  add({"--library", library});
  if (contestant != Contestant::kStock && !options.plugins.empty()) add({"--plugins", options.plugins});
  return arguments;
}

// One round of a measurement whose contestants alternate: all set up, then each measures for a moment, repeatedly.
void measure_in_turns(const Options& options, const Plan& plan, const Run& run, unsigned round, Results& results) {
  struct Player {
    Contestant contestant;
    std::vector<std::string> arguments;
    ChildProcess process;
    std::vector<Answer> turns;
    bool playing;
  };
  std::vector<Player> players;
  for (const Contestant contestant : kContestants) {
    auto arguments = command(options, plan, run, contestant);
    if (arguments.empty()) continue;
    arguments.insert(arguments.end(), {"--turns", std::to_string(run.turns)});
    ChildProcess process(arguments, plan.limit_seconds);
    players.push_back({contestant, std::move(arguments), std::move(process), {}, true});
  }
  for (Player& player : players) player.playing = player.process.read_until("ready", player.turns.emplace_back());
  for (unsigned turn = 0; turn < run.turns; ++turn) {
    for (std::size_t i = 0; i < players.size(); ++i) {
      Player& player = players[(i + turn + round) % players.size()];
      if (!player.playing) continue;
      player.process.go();
      player.playing = player.process.read_until("turn", player.turns.emplace_back());
    }
  }
  for (Player& player : players) {
    player.process.finish(player.turns.emplace_back());
    Answer answer = Results::combine(player.turns);
    if (!answer.failed.empty()) fmt::print(stderr, "\n{}: {}\n", fmt::join(player.arguments, " "), answer.failed);
    results.add(run.id, player.contestant, std::move(answer));
  }
}

Results measure(const Options& options, const Plan& plan) {
  Results results;
  for (unsigned round = 0; round < plan.rounds; ++round) {
    for (const Run& run : plan.runs) {
      if (run.rounds != 0 && round >= run.rounds) continue;
      if (isatty(STDERR_FILENO)) fmt::print(stderr, "\rround {} of {}: {:<30}", round + 1, plan.rounds, run.id);
      if (run.turns > 1) {
        measure_in_turns(options, plan, run, round, results);
        continue;
      }
      for (std::size_t turn = 0; turn < kContestants.size(); ++turn) {
        const Contestant contestant = kContestants[(turn + round) % kContestants.size()];
        const auto arguments = command(options, plan, run, contestant);
        if (arguments.empty()) continue;
        Answer answer = execute(arguments, plan.limit_seconds);
        if (!answer.failed.empty()) fmt::print(stderr, "\n{}: {}\n", fmt::join(arguments, " "), answer.failed);
        results.add(run.id, contestant, std::move(answer));
      }
    }
  }
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r{:<50}\r", "");
  return results;
}

Plan make_plan(const Options& options, Effort effort) {
  if (options.plan == "verbs") return make_verbs_plan(effort, options.address, options.counted);
  if (options.plan == "ud") return make_ud_plan(effort, options.address, options.counted);
  if (options.plan == "rdm") return make_rdm_plan(effort, options.address);
  if (options.plan == "local") return make_local_plan(effort);
  return options.plan == "udp" ? make_udp_plan(effort) : make_tcp_plan(effort);
}

Plan chosen_plan(const Options& options) {
  const Effort effort = options.quick ? Effort::kQuick : options.full ? Effort::kFull : Effort::kNormal;
  Plan plan = make_plan(options, effort);
  if (options.rounds != 0) plan.rounds = options.rounds;
  if (options.only.empty()) return plan;
  std::erase_if(plan.runs, [&](const Run& run) { return !run.id.starts_with(options.only); });
  std::erase_if(plan.rows, [&](const Row& row) { return !row.run.starts_with(options.only); });
  plan.plots.clear();
  return plan;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.programs = std::filesystem::canonical("/proc/self/exe").parent_path();
  if (const char* device_address = std::getenv("RXE_ADDRESS")) options.address = device_address;  // tests/rxe/run.sh
  CLI::App app{"Measures weft, stock libfabric and raw sockets or verbs side by side."};
  app.add_option("--plan", options.plan, "set of measurements")
      ->check(CLI::IsMember({"tcp", "udp", "local", "verbs", "ud", "rdm"}));
  app.add_option("--address", options.address, "verbs, ud: IPv4 address of the RDMA device");
  app.add_option("--weft", options.weft, "path of weft's libfabric.so.1; left out when not given");
  app.add_option("--plugins", options.plugins, "folder of weft's provider plug-ins, if not beside the library");
  app.add_option("--stock", options.stock, "path of the other libfabric.so.1; left out when it does not exist");
  app.add_option("--output", options.output, "directory for the page, its numbers and the plots");
  app.add_option("--command", options.command, "command named in the report");
  app.add_option("--host", options.host, "machine beneath a virtual one, named in the report");
  app.add_option("--only", options.only, "only measurements whose name starts like this, e.g. stream-");
  app.add_option("--rounds", options.rounds, "number of rounds of each measurement");
  app.add_flag("--counted", options.counted, "verbs, ud: the clock counts the instructions of one processor");
  app.add_flag("--quick", options.quick, "one short round: shows that everything works, not how fast");
  app.add_flag("--full", options.full, "more and longer rounds");
  CLI11_PARSE(app, argc, argv);
  if (!std::filesystem::exists(options.stock)) {
    fmt::print("stock libfabric left out: {} does not exist\n", options.stock);
    options.stock.clear();
  }

  // inherited by the measured programs
  if (sched_getscheduler(0) == SCHED_FIFO) options.command.insert(0, "chrt -f 1 ");

  const Plan plan = chosen_plan(options);
  const Machine machine = describe_machine(options.host);
  const Results results = measure(options, plan);
  fmt::print("{}; load average {}; {} rounds\n\n{}", to_line(machine), machine.load, plan.rounds,
             to_markdown_table(plan, results));
  if (!options.output.empty()) {
    std::filesystem::create_directories(options.output);
    if (!write_report(options.output, options.command, machine, plan, results)) {
      fmt::print(stderr, "cannot write to {}\n", options.output);
      return 1;
    }
  }
  return results.any_failed() ? 1 : 0;
}
