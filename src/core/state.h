// SPDX-License-Identifier: BSD-2-Clause
// The whole mutable state of the library: parameters, log, providers, last texts; fabric(7).
#pragma once

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/log.h"
#include "core/parameters.h"
#include "core/registry.h"

namespace weft::core {

// The last string returned to each thread, which makes fi_tostr thread-safe although fi_fabric(3) does not promise it.
// Not thread_local: a thread_local with a destructor would keep the library from being unloaded.
class ThreadText {
 public:
  ThreadText() noexcept : ok_(::pthread_key_create(&key_, std::free) == 0) {}
  ~ThreadText() {
    if (!ok_) return;
    std::free(::pthread_getspecific(key_));
    ::pthread_key_delete(key_);
  }

  // Returns a copy that lives until the thread's next call or end; nullptr when memory or keys run out.
  char* keep(const std::string& text) noexcept {
    char* copy = ok_ ? ::strdup(text.c_str()) : nullptr;
    if (copy == nullptr) return nullptr;
    std::free(::pthread_getspecific(key_));
    ::pthread_setspecific(key_, copy);
    return copy;
  }

 private:
  pthread_key_t key_{};
  const bool ok_;
};

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
