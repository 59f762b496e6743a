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
  if (!machine.place.empty()) put("  \"place\": \"{}\",\n", machine.place);
  put("  \"load\": {},\n  \"rounds\": {},\n  \"answers\": [", machine.load, plan.rounds);
  const char* separator = "";
  for (const Run& run : plan.runs) {
    for (const Contestant contestant : kContestants) {
      for (const Answer& answer : results.answers(run.id, contestant)) {
        put("{}\n    {{\"run\": \"{}\", \"contestant\": \"{}\"", separator, run.id, contestant_name(plan, contestant));
        for (const auto& [name, value] : answer.metrics) put(", \"{}\": {}", name, value);
        put("}}");
        separator = ",";
      }
    }
  }
  put("\n  ]\n}}\n");
  return fmt::to_string(out);
}

Plot make_plot(const Plan& plan, const PlotPlan& plot_plan, const Machine& machine, const Results& results) {
  Plot plot{plot_plan.title, to_line(machine), plot_plan.x_label, plot_plan.y_label, {}};
  for (const Contestant contestant : kContestants) {
    const auto index = static_cast<std::size_t>(contestant);
    Series series{contestant_name(plan, contestant), kColours[index], {}};
    for (const PlotPoint& point : plot_plan.points) {
      const Row row{{}, point.run, plot_plan.metric, {}};
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

std::string contestant_name(const Plan& plan, Contestant contestant) {
  switch (contestant) {
    case Contestant::kWeft:
      return "weft";
    case Contestant::kStock:
      return "stock libfabric";
    case Contestant::kRaw:
      break;
  }
  return plan.raw_name;
}

std::string to_markdown_table(const Plan& plan, const Results& results) {
  std::string table = fmt::format(
      "| | unit | weft | stock libfabric | {} | weft / stock | weft / raw | target | verdict |\n"
      "|---|---|---|---|---|---|---|---|---|\n",
      plan.raw_name);
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
  std::string page = plan.page.introduction;
  Machine system = machine;  // the virtual machine gets a line of its own
  system.place.clear();
  page += fmt::format("\n{}{}{}.\nLoad average {} before the run; {} rounds. Command:\n`{}`\n\n", to_line(system),
                      machine.place.empty() ? "" : ",\n", machine.place, machine.load, plan.rounds, command);
  page += to_markdown_table(plan, results);
  bool written = write_file(directory + "/" + plan.page.numbers, to_json(machine, plan, results));
  for (const PlotPlan& plot_plan : plan.plots) {
    const Plot plot = make_plot(plan, plot_plan, machine, results);
    if (plot.series.empty()) continue;
    page += fmt::format("\n![{}]({})\n", plot.title, plot_plan.file);
    written = write_file(directory + "/" + plot_plan.file, to_svg(plot)) && written;
  }
  return write_file(directory + "/" + plan.page.file, page + plan.page.method) && written;
}

}  // namespace bench
