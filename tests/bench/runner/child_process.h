// SPDX-License-Identifier: BSD-2-Clause
// Runs one bench program and reads its answer.
#pragma once

#include <sys/types.h>

#include <chrono>
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

// A bench program with one end of a stream as its standard input, and its output line by line.
class ChildProcess {
 public:
  // arguments[0] is the path of the program. It counts as failed after limit_seconds.
  ChildProcess(const std::vector<std::string>& arguments, unsigned limit_seconds);
  ChildProcess(ChildProcess&& other) noexcept;
  ~ChildProcess();  // kills the rest of it, with its children

  void go();
  // Reads until the line `last`; with an empty one, to the end of the output. Returns the lines before, and whether the
  // line came.
  bool read_until(const std::string& last, Answer& answer);
  // Waits for its end. `answer` gets its last output, and the reason of a failure.
  void finish(Answer& answer);

 private:
  bool read_line(std::string& line);

  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::chrono::steady_clock::time_point end_;
  unsigned limit_seconds_;
  bool late_ = false;
  std::string text_;  // read, and no whole line yet
};

// Runs a program to its end.
Answer execute(const std::vector<std::string>& arguments, unsigned limit_seconds);

}  // namespace bench
