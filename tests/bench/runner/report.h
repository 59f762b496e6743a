// SPDX-License-Identifier: BSD-2-Clause
// The output of a bench run: the table in Markdown, the plots, and every number in JSON.
#pragma once

#include <string>

#include "runner/machine.h"
#include "runner/plan.h"
#include "runner/results.h"

namespace bench {

std::string to_markdown_table(const Plan& plan, const Results& results);

// Writes the page, its numbers and the plots into an existing directory; false when a file cannot be written.
bool write_report(const std::string& directory, const std::string& command, const Machine& machine, const Plan& plan,
                  const Results& results);

}  // namespace bench
