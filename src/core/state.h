// SPDX-License-Identifier: BSD-2-Clause
// The mutable state of the library, all of it: parameters, log, providers.
#pragma once

#include "core/log.h"
#include "core/parameters.h"
#include "core/registry.h"

namespace weft::core {

struct State {
  State();

  Parameters parameters;
  Log log;
  Registry registry;
};

// Made by the first call into the library. It outlives every destructor and exit handler of the application: it dies
// when the library is unloaded.
State& state();

// What unloading does: providers clean up, plug-ins go, and a later call would start afresh. Only for that and for
// tests: nobody else may be in the library.
void unload() noexcept;

}  // namespace weft::core
