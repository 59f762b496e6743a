// SPDX-License-Identifier: BSD-2-Clause
// fi_log and its companions, for providers; fi_provider(3) fi_log_enabled / fi_log_ready / fi_log.
#include <rdma/providers/fi_log.h>

#include <cstdarg>
#include <cstdio>

#include "core/boundary.h"
#include "core/log.h"
#include "core/state.h"

using namespace weft::core;

// True for an active capture even when the user's filters reject the line: callers skip fi_log otherwise.
WEFT_EXPORT int fi_log_enabled(const fi_provider* prov, fi_log_level level, fi_log_subsys subsys) {
  return Capture::wants(level) || guarded([&] { return int{state().log.enabled(prov, level, subsys)}; }) > 0;
}

WEFT_EXPORT int fi_log_ready(const fi_provider* prov, fi_log_level level, fi_log_subsys subsys, uint64_t* showtime) {
  return guarded([&] { return int{state().log.ready(prov, level, subsys, showtime)}; }) > 0;
}

WEFT_EXPORT void fi_log(const fi_provider* prov, fi_log_level level, fi_log_subsys subsys, const char* func, int line,
                        const char* fmt, ...) {
  char message[kLogMessageSize];
  va_list arguments;
  va_start(arguments, fmt);
  std::vsnprintf(message, sizeof message, fmt, arguments);
  va_end(arguments);
  static_cast<void>(guarded([&] {
    const Log& log = state().log;
    if (Capture::wants(level)) {
      Capture::current()->add(message);
      if (!log.enabled(prov, level, subsys)) return 0;
    }
    log.write(prov, level, subsys, func, line, message);
    return 0;
  }));
}
