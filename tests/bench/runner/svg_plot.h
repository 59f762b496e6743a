// SPDX-License-Identifier: BSD-2-Clause
// A line plot with logarithmic axes, written as a stand-alone SVG.
#pragma once

#include <string>
#include <vector>

namespace bench {

struct Point {
  double x;
  double y;
};

struct Series {
  std::string name;
  std::string colour;
  std::vector<Point> points;  // x ascending, all values positive
};

struct Plot {
  std::string title;
  std::string footer;  // date and machine
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;  // one point at least
};

std::string to_svg(const Plot& plot);

}  // namespace bench
