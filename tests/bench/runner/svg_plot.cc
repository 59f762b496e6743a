// SPDX-License-Identifier: BSD-2-Clause
// A line plot with logarithmic axes; see svg_plot.h.
#include "runner/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

namespace bench {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 460;
constexpr double kLeft = 80;
constexpr double kRight = 24;
constexpr double kTop = 76;
constexpr double kBottom = 84;

// The colours on a dark page. A rule precedes the attributes that the elements have.
constexpr std::string_view kDark =
    R"(<style>@media (prefers-color-scheme: dark) { svg { fill: #dde3e9 } rect { fill: #14181c } )"
    R"([fill="#666"] { fill: #9aa5b1 } [stroke="#222"] { stroke: #dde3e9 } [stroke="#ccc"] { stroke: #4a535c } )"
    R"([stroke="#eee"] { stroke: #2b3238 } [fill="#0b6bcb"] { fill: #6cb2f5 } [stroke="#0b6bcb"] { stroke: #6cb2f5 } )"
    R"([fill="#777777"] { fill: #a3acb5 } [stroke="#777777"] { stroke: #a3acb5 } }</style>)";

struct Range {
  double low;
  double high;
};

// A logarithmic axis: maps a positive value to a coordinate between from and to.
class Axis {
 public:
  Axis(Range range, double from, double to)
      : low_(std::log10(range.low)), high_(std::log10(range.high)), from_(from), to_(to) {}
  double at(double value) const {
    const double part = high_ == low_ ? 0.5 : (std::log10(value) - low_) / (high_ - low_);
    return from_ + part * (to_ - from_);
  }

 private:
  double low_;
  double high_;
  double from_;
  double to_;
};

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string number(double value) {
  if (value >= 1e6 && std::fmod(value, 1 << 20) == 0) return fmt::format("{:g}M", value / (1 << 20));
  if (value >= 1024 && std::fmod(value, 1024) == 0) return fmt::format("{:g}K", value / 1024);
  return fmt::format("{:g}", value);
}

// 1, 2, 5 in each decade, widened to the next of them on both ends.
std::vector<double> ticks(Range values) {
  std::vector<double> all;
  for (int decade = static_cast<int>(std::floor(std::log10(values.low))); decade <= std::log10(values.high) + 1;
       ++decade)
    for (const double step : {1.0, 2.0, 5.0}) all.push_back(step * std::pow(10, decade));
  const auto first = std::prev(std::upper_bound(all.begin(), all.end(), values.low));
  auto last = std::lower_bound(first, all.end(), values.high);
  if (last == first) ++last;
  return {first, last + 1};
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot), y_ticks_(ticks(y_range())) {}

  std::string draw() {
    put(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" font-family="sans-serif" font-size="13" fill="#222">)",
        kWidth, kHeight);
    put("{}", kDark);
    put(R"(<rect width="{}" height="{}" fill="#fff"/>)", kWidth, kHeight);
    text(kLeft, 26, "start", plot_.title, "font-size=\"17\" font-weight=\"bold\"");
    axes();
    legend();
    for (const Series& series : plot_.series) curve(series);
    text(kLeft, kHeight - 12, "start", plot_.footer, "font-size=\"11\" fill=\"#666\"");
    put("</svg>");
    return fmt::to_string(out_);
  }

 private:
  template <class... T>
  void put(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(values)...);
    out_.push_back('\n');
  }

  void text(double x, double y, const char* anchor, const std::string& words, const char* style = "") {
    put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" {}>{}</text>)", x, y, anchor, style, escape(words));
  }

  void line(double x1, double y1, double x2, double y2, const char* colour) {
    put(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)", x1, y1, x2, y2, colour);
  }

  Range y_range() const {
    Range range{INFINITY, 0};
    for (const Series& series : plot_.series)
      for (const Point& p : series.points) range = {std::min(range.low, p.y), std::max(range.high, p.y)};
    return range;
  }

  // Measured sizes and counts are the ticks of the x axis.
  std::set<double> x_values() const {
    std::set<double> values;
    for (const Series& series : plot_.series)
      for (const Point& p : series.points) values.insert(p.x);
    return values;
  }

  Axis x_axis() const {
    const std::set<double> values = x_values();
    return {{*values.begin(), *values.rbegin()}, kLeft + 24, kWidth - kRight - 24};
  }

  Axis y_axis() const { return {{y_ticks_.front(), y_ticks_.back()}, kHeight - kBottom, kTop}; }

  void axes() {
    const double bottom = kHeight - kBottom;
    const double right = kWidth - kRight;
    const bool crowded = y_ticks_.size() > 14;
    for (const double tick : y_ticks_) {
      const double y = y_axis().at(tick);
      const double log = std::log10(tick);
      const bool decade = std::abs(log - std::round(log)) < 1e-9;
      if (crowded && !decade) continue;
      line(kLeft, y, right, y, decade ? "#ccc" : "#eee");
      text(kLeft - 8, y + 4, "end", fmt::format("{:g}", tick));
    }
    for (const double value : x_values()) {
      const double x = x_axis().at(value);
      line(x, bottom, x, bottom + 5, "#222");
      text(x, bottom + 20, "middle", number(value));
    }
    line(kLeft, bottom, right, bottom, "#222");
    line(kLeft, kTop, kLeft, bottom, "#222");
    text((kLeft + right) / 2, bottom + 44, "middle", plot_.x_label);
    put(R"svg(<text transform="translate(22 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>)svg",
        (kTop + bottom) / 2, escape(plot_.y_label));
  }

  void legend() {
    double x = kLeft;
    for (const Series& series : plot_.series) {
      put(R"(<line x1="{0:.1f}" y1="50" x2="{1:.1f}" y2="50" stroke="{2}" stroke-width="3"/>)", x, x + 24,
          series.colour);
      text(x + 30, 54, "start", series.name);
      x += 56 + 7.5 * static_cast<double>(series.name.size());
    }
  }

  void curve(const Series& series) {
    std::string path;
    for (const Point& p : series.points) path += fmt::format("{:.1f},{:.1f} ", x_axis().at(p.x), y_axis().at(p.y));
    put(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>)", path, series.colour);
    for (const Point& p : series.points)
      put(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="{}"><title>{}: {:.4g}</title></circle>)", x_axis().at(p.x),
          y_axis().at(p.y), series.colour, number(p.x), p.y);
  }

  const Plot& plot_;
  std::vector<double> y_ticks_;
  fmt::memory_buffer out_;
};

}  // namespace

std::string to_svg(const Plot& plot) {
  return Drawing(plot).draw();
}

}  // namespace bench
