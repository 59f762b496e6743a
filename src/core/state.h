// SPDX-License-Identifier: BSD-2-Clause
// The whole mutable state of the library: parameters, log, providers, last texts; fabric(7).
#pragma once

#include <pthread.h>

#include <cstdlib>
#include <string>

#include "core/log.h"
#include "core/memory_monitor.h"
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

  // Returns a copy, cut to kSize. The text is valid until the thread's next call, the memory until the thread ends:
  // programs print two results with one call. nullptr when memory or keys run out.
  char* keep(const std::string& text) noexcept {
    if (!ok_) return nullptr;
    char* copy = static_cast<char*>(::pthread_getspecific(key_));
    if (copy == nullptr) {
      copy = static_cast<char*>(std::malloc(kSize));
      if (copy == nullptr) return nullptr;
      if (::pthread_setspecific(key_, copy) != 0) {
        std::free(copy);
        return nullptr;
      }
    }
    copy[text.copy(copy, kSize - 1)] = '\0';
    return copy;
  }

 private:
  static constexpr std::size_t kSize = 8192;
  pthread_key_t key_{};
  const bool ok_;
};

struct State {
  State();

  Parameters parameters;
  Log log;
  Registry registry;
  MonitorImport monitor;
  ThreadText last_text;  // returned by fi_tostr
};

// Created by the first call into the library, destroyed when the library is unloaded, after every destructor and exit
// handler of the application.
State& state();

// Cleans up providers, unloads plug-ins and destroys the state; a later call creates a new one. For unloading and for
// tests: no other thread may be in the library.
void unload() noexcept;

}  // namespace weft::core
