// SPDX-License-Identifier: BSD-2-Clause
// The results as text, JSON and JUnit; fi_conform(1) describes the members.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "program/offers.h"
#include "program/run.h"

namespace conform {

struct Result {
  const Sentence* sentence;
  std::string target;  // "tcp:msg"
  Outcome outcome;
};

struct Report {
  Library library;
  std::vector<Result> results;
};

void print_line(std::ostream& out, const Result& result, bool with_output);
void print_summary(std::ostream& out, const Report& report);
void print_json(std::ostream& out, const Report& report);
void print_junit(std::ostream& out, const Report& report);

}  // namespace conform
