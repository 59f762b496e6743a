// SPDX-License-Identifier: BSD-2-Clause
// The mutable state of the library, all of it: parameters, log, providers, last texts.
#pragma once

#include "core/log.h"
#include "core/parameters.h"
#include "core/registry.h"
#include "core/thread_text.h"

namespace weft::core {

struct State {
  State();

  Parameters parameters;
  Log log;
  Registry registry;
  ThreadText last_text;  // of fi_tostr
};

// Made by the first call into the library. It outlives every destructor and exit handler of the application: it dies
// when the library is unloaded.
State& state();

// What unloading does: providers clean up, plug-ins go, and a later call would start afresh. Only for that and for
// tests: nobody else may be in the library.
void unload() noexcept;

}  // namespace weft::core
