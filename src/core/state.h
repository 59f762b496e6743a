// SPDX-License-Identifier: BSD-2-Clause
// The whole mutable state of the library: parameters, log, providers, last texts; fabric(7).
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
  ThreadText last_text;  // returned by fi_tostr
};

// Created by the first call into the library, destroyed when the library is unloaded, after every destructor and exit
// handler of the application.
State& state();

// Cleans up providers, unloads plug-ins and destroys the state; a later call creates a new one. For unloading and for
// tests: no other thread may be in the library.
void unload() noexcept;

}  // namespace weft::core
