// SPDX-License-Identifier: BSD-2-Clause
// All results, and the statistics computed from them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/child_process.h"
#include "runner/plan.h"

namespace bench {

class Results {
 public:
  void add(const std::string& run, Contestant contestant, Answer answer) {
    answers_[{run, contestant}].push_back(std::move(answer));
  }

  // The answer of a round from those of its turns: the median of each metric, but the largest number of allocations.
  static Answer combine(const std::vector<Answer>& turns);

  // Over all rounds; empty when no round brought the metric.
  std::optional<double> median(const Row& row, Contestant contestant) const;
  std::optional<double> best(const Row& row, Contestant contestant) const;

  // Median of the ratios within each round: contestants of one round ran within seconds of each other, so the influence
  // of other load mostly cancels out.
  std::optional<double> ratio(const Row& row, Contestant contestant, Contestant reference) const;

  // The reason why nothing was measured, or nothing.
  std::string reason(const std::string& run, Contestant contestant) const;
  bool any_failed() const;

  const std::vector<Answer>& answers(const std::string& run, Contestant contestant) const;

 private:
  std::vector<double> values(const Row& row, Contestant contestant) const;

  std::map<std::pair<std::string, Contestant>, std::vector<Answer>> answers_;
};

}  // namespace bench
