// SPDX-License-Identifier: BSD-2-Clause
// Results and their statistics; see results.h.
#include "runner/results.h"

#include <algorithm>

namespace bench {
namespace {

std::optional<double> median_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<double> find(const Answer& answer, const std::string& metric) {
  const auto found = answer.metrics.find(metric);
  return found == answer.metrics.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

Answer Results::combine(const std::vector<Answer>& turns) {
  std::map<std::string, std::vector<double>> values;
  Answer combined;
  for (const Answer& turn : turns) {
    for (const auto& [metric, value] : turn.metrics) values[metric].push_back(value);
    if (combined.failed.empty()) combined.failed = turn.failed;
    if (combined.skipped.empty()) combined.skipped = turn.skipped;
  }
  for (auto& [metric, all] : values)
    combined.metrics[metric] =
        metric == "allocations_per_op" ? *std::max_element(all.begin(), all.end()) : *median_of(std::move(all));
  return combined;
}

const std::vector<Answer>& Results::answers(const std::string& run, Contestant contestant) const {
  static const std::vector<Answer> none;
  const auto found = answers_.find({run, contestant});
  return found == answers_.end() ? none : found->second;
}

std::vector<double> Results::values(const Row& row, Contestant contestant) const {
  std::vector<double> values;
  for (const Answer& answer : answers(row.run, contestant))
    if (const auto value = find(answer, row.metric)) values.push_back(*value * row.scale);
  return values;
}

std::optional<double> Results::median(const Row& row, Contestant contestant) const {
  return median_of(values(row, contestant));
}

std::optional<double> Results::best(const Row& row, Contestant contestant) const {
  const std::vector<double> all = values(row, contestant);
  if (all.empty()) return std::nullopt;
  return row.higher_is_better ? *std::max_element(all.begin(), all.end()) : *std::min_element(all.begin(), all.end());
}

std::optional<double> Results::ratio(const Row& row, Contestant contestant, Contestant reference) const {
  const auto& ours = answers(row.run, contestant);
  const auto& theirs = answers(row.run, reference);
  std::vector<double> ratios;
  for (std::size_t round = 0; round < std::min(ours.size(), theirs.size()); ++round) {
    const auto a = find(ours[round], row.metric);
    const auto b = find(theirs[round], row.metric);
    if (a && b && *b != 0) ratios.push_back(*a / *b);
  }
  return median_of(std::move(ratios));
}

std::string Results::reason(const std::string& run, Contestant contestant) const {
  for (const Answer& answer : answers(run, contestant)) {
    if (!answer.failed.empty()) return "failed: " + answer.failed;
    if (!answer.skipped.empty()) return "skipped: " + answer.skipped;
  }
  return {};
}

bool Results::any_failed() const {
  for (const auto& [key, answers] : answers_)
    for (const Answer& answer : answers)
      if (!answer.failed.empty()) return true;
  return false;
}

}  // namespace bench
