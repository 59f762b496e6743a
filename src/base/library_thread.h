// SPDX-License-Identifier: BSD-2-Clause
// Threads of the library. They leave the program's signals to the program's threads: signal(7), sigwait(3).
#pragma once

#include <thread>
#include <utility>

#include "base/held_signals.h"

namespace weft {

// Throws as std::thread does.
template <class Run>
std::thread library_thread(Run run) {
  const HeldSignals inherited(true);  // a new thread starts with the signals that are blocked here
  return std::thread(std::move(run));
}

}  // namespace weft
