// SPDX-License-Identifier: BSD-2-Clause
// The last string returned to each thread, which makes fi_tostr thread-safe although fi_fabric(3) does not promise it.
// Not thread_local: a thread_local with a destructor would keep the library from being unloaded.
#pragma once

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace weft::core {

class ThreadText {
 public:
  ThreadText() noexcept : ok_(::pthread_key_create(&key_, std::free) == 0) {}
  ~ThreadText() {
    if (!ok_) return;
    std::free(::pthread_getspecific(key_));
    ::pthread_key_delete(key_);
  }
  ThreadText(const ThreadText&) = delete;
  ThreadText& operator=(const ThreadText&) = delete;

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

}  // namespace weft::core
