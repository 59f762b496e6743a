// SPDX-License-Identifier: BSD-2-Clause
// Table, plots and JSON of a run; see report.h.
#include "runner/report.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "runner/svg_plot.h"

namespace bench {
namespace {

constexpr std::array kColours = {"#0b6bcb", "#e07b00", "#777777"};  // in the order of kContestants

constexpr const char* kIntroduction = R"(# Performance

weft, the libfabric.so.1 that Debian ships, and plain TCP sockets do the same work between two processes over 127.0.0.1,
in turns, within one run. This page is written by `tests/bench/run.sh`; the numbers behind it are in
[results.json](results.json).
)";

constexpr const char* kMethod = R"(
## How it is measured

- Both libraries are loaded by path into the same program, which uses only the public API: FI_EP_MSG over the tcp provider,
  FI_THREAD_DOMAIN, one completion queue for both directions, read with fi_cq_read without pause.
- "raw sockets" is non-blocking send() and recv() without pause on sockets with TCP_NODELAY, a 16-byte header before each
  payload, header and payload in one call, small frames gathered up to 64 KiB. With several connections it asks epoll first.
  Where the fabric's threads block, it uses blocking calls.
- Client and server run on the first and the last core allowed to them, at the highest ordinary priority where they may
  take it (on a machine that others use as well, `chrt -f 1` before the command keeps them out), every contestant alike.
- Contestants take turns within a round and rotate from round to round. A cell is the median over rounds, in brackets the
  best round; a ratio is the median of the ratios within each round. Verdicts go by that median.
- A stream is timed until the receiver has confirmed the last message. Every message carries a sequence number that the
  receiver checks. Streams of 64 KiB and more, and RMA, keep 16 transfers under way.
- "connects" covers endpoint, connect, accept, FI_CONNECTED on both sides and close; raw sockets exchange 32 bytes each way in
  place of the request and response. "outstanding" starts all connects before it waits for the first.
- Memory of a connection is the growth of Private_Dirty in /proc/self/smaps_rollup, divided by the connections, before any
  message; heap is the growth of what malloc has handed out. Kernel memory of the sockets is in neither.
- Processor use is that of the whole process while one thread sleeps in a blocking read.
- Allocations are calls of malloc and its relatives anywhere in the client while messages flow. Instructions are those in
  user space; n/a means that this machine gives no hardware counter for them.
- "queue with a wait object" polls a completion queue that was opened with FI_WAIT_UNSPEC in place of FI_WAIT_NONE.
)";

std::string digits(double value) {
  if (value == 0) return "0";
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string cell(const Row& row, const Results& results, Contestant contestant) {
  const auto median = results.median(row, contestant);
  if (median) return fmt::format("{} ({})", digits(*median), digits(*results.best(row, contestant)));
  const std::string reason = results.reason(row.run, contestant);
  return reason.empty() ? "n/a" : reason;
}

std::string ratio_cell(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : "";
}

std::optional<double> judged(const Row& row, const Results& results) {
  switch (row.target.measure) {
    case Measure::kOverRaw:
      return results.ratio(row, Contestant::kWeft, Contestant::kRaw);
    case Measure::kOverStock:
      return results.ratio(row, Contestant::kWeft, Contestant::kStock);
    case Measure::kValue:
      return results.median(row, Contestant::kWeft);
  }
  return std::nullopt;
}

std::string target_cell(const Row& row) {
  if (row.target.bound == Bound::kNone) return "";
  const char* sign = row.target.bound == Bound::kAtMost ? "&le;" : "&ge;";
  switch (row.target.measure) {
    case Measure::kOverRaw:
      return fmt::format("{} {:g} x raw", sign, row.target.limit);
    case Measure::kOverStock:
      return fmt::format("{} {:g} x stock", sign, row.target.limit);
    case Measure::kValue:
      return fmt::format("{} {:g} {}", sign, row.target.limit, row.unit);
  }
  return "";
}

std::string verdict(const Row& row, const Results& results) {
  if (row.target.bound == Bound::kNone) return "";
  const auto value = judged(row, results);
  if (!value) return "not judged";
  const bool met = row.target.bound == Bound::kAtMost ? *value <= row.target.limit : *value >= row.target.limit;
  return met ? "PASS" : "**MISS**";
}

std::string to_json(const Machine& machine, const Plan& plan, const Results& results) {
  fmt::memory_buffer out;
  const auto put = [&out]<class... T>(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(out), format, std::forward<T>(values)...);
  };
  put("{{\n  \"date\": \"{}\",\n  \"processor\": \"{}\",\n  \"cores\": {},\n  \"memory\": \"{}\",\n  \"kernel\": "
      "\"{}\",\n",
      machine.date, machine.processor, machine.cores, machine.memory, machine.kernel);
  put("  \"load\": {},\n  \"rounds\": {},\n  \"answers\": [", machine.load, plan.rounds);
  const char* separator = "";
  for (const Run& run : plan.runs) {
    for (const Contestant contestant : kContestants) {
      for (const Answer& answer : results.answers(run.id, contestant)) {
        put("{}\n    {{\"run\": \"{}\", \"contestant\": \"{}\"", separator, run.id,
            kContestantNames[static_cast<std::size_t>(contestant)]);
        for (const auto& [name, value] : answer.metrics) put(", \"{}\": {}", name, value);
        put("}}");
        separator = ",";
      }
    }
  }
  put("\n  ]\n}}\n");
  return fmt::to_string(out);
}

Plot make_plot(const PlotPlan& plan, const Machine& machine, const Results& results) {
  Plot plot{plan.title, to_line(machine), plan.x_label, plan.y_label, {}};
  for (const Contestant contestant : kContestants) {
    const auto index = static_cast<std::size_t>(contestant);
    Series series{kContestantNames[index], kColours[index], {}};
    for (const PlotPoint& point : plan.points) {
      const Row row{{}, point.run, plan.metric, {}};
      if (const auto y = results.median(row, contestant); y && *y > 0) series.points.push_back({point.x, *y});
    }
    if (!series.points.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return static_cast<bool>(file.flush());
}

}  // namespace

std::string to_markdown_table(const Plan& plan, const Results& results) {
  std::string table =
      "| | unit | weft | stock libfabric | raw sockets | weft / stock | weft / raw | target | verdict |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  for (const Row& row : plan.rows) {
    table += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", row.title, row.unit, cell(row, results, Contestant::kWeft),
        cell(row, results, Contestant::kStock), cell(row, results, Contestant::kRaw),
        ratio_cell(results.ratio(row, Contestant::kWeft, Contestant::kStock)),
        ratio_cell(results.ratio(row, Contestant::kWeft, Contestant::kRaw)), target_cell(row), verdict(row, results));
  }
  return table;
}

bool write_report(const std::string& directory, const std::string& command, const Machine& machine, const Plan& plan,
                  const Results& results) {
  std::string page = kIntroduction;
  page += fmt::format("\n{}; load average {} before the run; {} rounds. Command: `{}`\n\n", to_line(machine),
                      machine.load, plan.rounds, command);
  page += to_markdown_table(plan, results);
  bool written = write_file(directory + "/results.json", to_json(machine, plan, results));
  for (const PlotPlan& plot_plan : plan.plots) {
    const Plot plot = make_plot(plot_plan, machine, results);
    if (plot.series.empty()) continue;
    page += fmt::format("\n![{}]({})\n", plot.title, plot_plan.file);
    written = write_file(directory + "/" + plot_plan.file, to_svg(plot)) && written;
  }
  return write_file(directory + "/README.md", page + kMethod) && written;
}

}  // namespace bench
