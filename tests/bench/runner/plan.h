// SPDX-License-Identifier: BSD-2-Clause
// What a bench run measures and what it is judged by: the process pairs to start, the rows of the table, the plots.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace bench {

enum class Contestant { kWeft, kStock, kRaw };
inline constexpr std::array kContestants = {Contestant::kWeft, Contestant::kStock, Contestant::kRaw};
inline constexpr std::array kContestantNames = {"weft", "stock libfabric", "raw sockets"};

enum class Effort { kQuick, kNormal, kFull };

// One invocation of fabric_bench or socket_bench, repeated once a round for each contestant.
struct Run {
  std::string id;
  std::vector<std::string> arguments;
  bool raw = true;      // plain sockets can do it as well
  unsigned rounds = 0;  // at most so many; 0: in every round
};

enum class Bound { kNone, kAtMost, kAtLeast };
enum class Measure { kValue, kOverRaw, kOverStock };  // what the bound holds for: the value itself, or its ratio

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

struct Plan {
  unsigned rounds = 1;
  std::vector<Run> runs;
  std::vector<Row> rows;
  std::vector<PlotPlan> plots;
};

Plan make_plan(Effort effort);

}  // namespace bench
