// SPDX-License-Identifier: BSD-2-Clause
// The public symbols that src/objects uses, for a test binary without the core: log lines are stored for the test.
#pragma once

#include <string>
#include <vector>

namespace weft {

// The lines logged since the last call.
std::vector<std::string> take_log();

// Calls of the global operator new so far, by any thread.
unsigned long allocations() noexcept;

}  // namespace weft
