// SPDX-License-Identifier: BSD-2-Clause
// Runs one bench program and reads its answer.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace bench {

using Metrics = std::map<std::string, double>;

struct Answer {
  Metrics metrics;
  std::string skipped;  // reason; empty when it ran
  std::string failed;   // reason; empty when it succeeded
};

// arguments[0] is the path of the program. A program that does not end within limit_seconds is killed with its
// children.
Answer execute(const std::vector<std::string>& arguments, unsigned limit_seconds);

}  // namespace bench
