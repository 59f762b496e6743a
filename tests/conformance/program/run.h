// SPDX-License-Identifier: BSD-2-Clause
// One sentence on one target, in a child process with a time limit.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "program/sentences.h"

namespace conform {

enum class Verdict { kHolds, kDoesNotHold, kNotOffered };
const char* name_of(Verdict verdict);

struct Outcome {
  Verdict verdict = Verdict::kNotOffered;
  std::string reason;  // empty where the sentence holds
  std::string output;  // the library's and the trace's
  double seconds = 0;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

// A child of this program. Not thread-safe.
class Run {
 public:
  // Without a filter the child is not a test, and the environment names its role.
  Run(const std::string& filter, const Variables& environment, std::chrono::seconds limit);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool ended();  // looks at the child and enforces the limit; does not block
  // Once it has ended:
  Outcome outcome() const;
  std::string output() const;
  std::string death() const;  // how the process ended

 private:
  using Clock = std::chrono::steady_clock;

  pid_t pid_ = -1;
  int records_ = -1, output_ = -1;  // files in memory
  int status_ = 0;
  bool late_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point deadline_, end_;
  const std::chrono::seconds limit_;
};

}  // namespace conform
