// SPDX-License-Identifier: BSD-2-Clause
// The measurements of a bench run and their targets: the process pairs to start, the rows of the table, the plots.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace bench {

enum class Contestant { kWeft, kStock, kRaw };
inline constexpr std::array kContestants = {Contestant::kWeft, Contestant::kStock, Contestant::kRaw};

enum class Effort { kQuick, kNormal, kFull };

// One invocation of fabric_bench or of its raw counterpart, repeated once a round for each contestant.
struct Run {
  std::string id;
  std::vector<std::string> arguments;
  bool raw = true;      // the raw program can do it as well
  unsigned rounds = 0;  // at most so many; 0: in every round
  bool stock = true;    // the other library can do it as well
  unsigned turns = 1;   // in each round, with the contestants alternating (process/turns.h)
};

enum class Bound { kNone, kAtMost, kAtLeast };
enum class Measure { kValue, kOverRaw, kOverStock };  // the quantity of the bound: the value itself, or its ratio

struct Target {
  Bound bound = Bound::kNone;
  double limit = 0;
  Measure measure = Measure::kValue;
};

struct Row {
  std::string title;
  std::string run;
  std::string metric;
  std::string unit;
  bool higher_is_better = false;
  Target target{};
  double scale = 1;  // from the metric's unit to the row's
};

struct PlotPoint {
  double x;
  std::string run;
};

struct PlotPlan {
  std::string file;
  std::string title;
  std::string x_label;
  std::string y_label;
  std::string metric;
  std::vector<PlotPoint> points;
};

// The text around the table and the plots.
struct Page {
  std::string file;
  std::string numbers;  // file name of the JSON
  std::string introduction;
  std::string method;
};

struct Plan {
  Page page;
  std::string raw_name;
  std::string raw_program;
  std::vector<std::string> raw_arguments;     // for raw_program; if that is fabric_bench, it measures weft
  std::vector<std::string> common_arguments;  // for every program
  std::vector<std::string> fabric_arguments;  // for fabric_bench
  std::vector<std::string> stock_arguments;   // for fabric_bench with the other library, behind those
  unsigned limit_seconds = 60;                // for one pair of processes; they stop by themselves before
  unsigned rounds = 1;
  std::vector<Run> runs;
  std::vector<Row> rows;
  std::vector<PlotPlan> plots;
};

std::string contestant_name(const Plan& plan, Contestant contestant);

Plan make_tcp_plan(Effort effort);
Plan make_udp_plan(Effort effort);
Plan make_local_plan(Effort effort);
// `address`: of the RDMA device that both sides use. verbs: connections; ud: datagrams; rdm: reliable ones. `counted`:
// the clock counts the instructions of one processor, so that nothing is measured where one process waits for another.
Plan make_verbs_plan(Effort effort, const std::string& address, bool counted);
Plan make_ud_plan(Effort effort, const std::string& address, bool counted);
Plan make_rdm_plan(Effort effort, const std::string& address);

}  // namespace bench
