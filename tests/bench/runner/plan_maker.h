// SPDX-License-Identifier: BSD-2-Clause
// Shared by the plans: the writing of bounds, the naming of measurements, their duration.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/plan.h"

namespace bench {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;

constexpr Target at_most(double limit, Measure measure) {
  return {Bound::kAtMost, limit, measure};
}
constexpr Target at_least(double limit, Measure measure) {
  return {Bound::kAtLeast, limit, measure};
}

inline std::string size_name(std::size_t size) {
  if (size >= kMiB) return fmt::format("{} MiB", size / kMiB);
  if (size >= kKiB) return fmt::format("{} KiB", size / kKiB);
  return fmt::format("{} B", size);
}

class PlanMaker {
 public:
  // `seconds`: how long messages flow, for each effort.
  PlanMaker(Effort effort, double quick, double normal, double full) : effort_(effort) {
    plan_.rounds = pick(1u, 7u, 15u);
    seconds_ = fmt::format("{}", pick(quick, normal, full));
  }

 protected:
  template <class T>
  T pick(T quick, T normal, T full) const {
    return effort_ == Effort::kQuick ? quick : effort_ == Effort::kNormal ? normal : full;
  }

  std::string run(std::string id, std::string_view workload, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {std::string(workload), "--seconds", seconds_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    plan_.runs.push_back({id, std::move(arguments)});
    return id;
  }

  // The contestants alternate this often in a round of the measurement named last, for this time each.
  void in_turns(unsigned turns, double seconds) {
    plan_.runs.back().turns = pick(2u, turns, turns);
    if (effort_ == Effort::kQuick) return;
    auto& arguments = plan_.runs.back().arguments;
    *(std::find(arguments.begin(), arguments.end(), "--seconds") + 1) = fmt::format("{}", seconds);
  }

  // A workload that moves messages of one size. The first of `more` is part of its name.
  std::string sized(std::string_view workload, std::size_t size, unsigned window, std::vector<std::string> more = {}) {
    const std::string suffix = more.empty() ? "" : more.front().substr(1);
    more.insert(more.end(), {"--size", std::to_string(size), "--window", std::to_string(window)});
    return run(fmt::format("{}-{}{}", workload, size, suffix), workload, std::move(more));
  }

  // The raw program is that of librdmacm and libibverbs, all on the device with this address.
  void compare_with_verbs(const std::string& address) {
    plan_.raw_name = "raw verbs";
    plan_.raw_program = "verbs_bench";
    plan_.common_arguments = {"--address", address, "--limit", "100", "--busy-kernel", "--credits"};
    plan_.fabric_arguments = {"--provider", "verbs"};
    plan_.limit_seconds = 120;
  }

  Effort effort_;
  std::string seconds_;
  Plan plan_;
};

}  // namespace bench
