// SPDX-License-Identifier: BSD-2-Clause
//
// Logging for providers. Governing page: fi_provider(3); users configure it with FI_LOG_LEVEL,
// FI_LOG_PROV, FI_LOG_SUBSYS, FI_LOG_INTERVAL and FI_LOG_LOCATION: fabric(7) "LOGGING INTERFACE".
//
// Use the macros: a filtered message costs one call and its arguments are not evaluated; errno is
// kept. All calls are thread-safe. A provider must be registered, or its `context` zero, before it
// logs: libfabric's core keeps its filter there.
#ifndef FI_LOG_H
#define FI_LOG_H

#include <errno.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#ifdef __cplusplus
extern "C" {
#endif

// The subject of a message, for FI_LOG_SUBSYS.
enum fi_log_subsys {
  FI_LOG_CORE,
  FI_LOG_FABRIC,
  FI_LOG_DOMAIN,
  FI_LOG_EP_CTRL,
  FI_LOG_EP_DATA,
  FI_LOG_AV,
  FI_LOG_CQ,
  FI_LOG_EQ,
  FI_LOG_MR,
  FI_LOG_CNTR,
  FI_LOG_SUBSYS_MAX
};

// The urgency of a message. A level shows itself and all above it; by default nothing is shown.
enum fi_log_level {
  FI_LOG_WARN,   // something failed or is about to
  FI_LOG_TRACE,  // the path of calls
  FI_LOG_INFO,   // decisions and set-up
  FI_LOG_DEBUG,  // everything
  FI_LOG_MAX
};

// Nonzero if a message passes the user's filters.
int fi_log_enabled(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys);

// As fi_log_enabled, at most once per FI_LOG_INTERVAL (milliseconds, 2000 unless set) and call site. *showtime belongs
// to the call site and starts at 0; the library keeps in it the time before which the site stays silent.
int fi_log_ready(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys,
                 uint64_t* showtime);

// Writes one line without regard to the filters. `fmt` is printf's and should end in a newline; the
// line is cut to 1023 bytes.
void fi_log(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys, const char* func,
            int line, const char* fmt, ...) FI_FORMAT_PRINTF(6, 7);

// Logs if `wanted` is nonzero. The local name is long because the arguments may use the caller's.
#define FI_LOG_IF(wanted, prov, level, subsystem, ...)                 \
  do {                                                                 \
    if (wanted) {                                                      \
      int fi_log_saved_errno = errno;                                  \
      fi_log(prov, level, subsystem, __func__, __LINE__, __VA_ARGS__); \
      errno = fi_log_saved_errno;                                      \
    }                                                                  \
  } while (0)

// Logs every time ...
#define FI_LOG(prov, level, subsystem, ...) \
  FI_LOG_IF(fi_log_enabled(prov, level, subsystem), prov, level, subsystem, __VA_ARGS__)

// ... or at most once per FI_LOG_INTERVAL from this line of code.
#define FI_LOG_SPARSE(prov, level, subsystem, ...)                                                          \
  do {                                                                                                      \
    static uint64_t fi_log_showtime;                                                                        \
    FI_LOG_IF(fi_log_ready(prov, level, subsystem, &fi_log_showtime), prov, level, subsystem, __VA_ARGS__); \
  } while (0)

#define FI_WARN(prov, subsystem, ...) FI_LOG(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)
#define FI_WARN_SPARSE(prov, subsystem, ...) FI_LOG_SPARSE(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)
#define FI_TRACE(prov, subsystem, ...) FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#define FI_INFO(prov, subsystem, ...) FI_LOG(prov, FI_LOG_INFO, subsystem, __VA_ARGS__)

// Debug messages exist only in builds with ENABLE_DEBUG.
#if defined(ENABLE_DEBUG) && ENABLE_DEBUG
#define FI_DBG(prov, subsystem, ...) FI_LOG(prov, FI_LOG_DEBUG, subsystem, __VA_ARGS__)
#define FI_DBG_TRACE(prov, subsystem, ...) FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#else
#define FI_DBG(prov, subsystem, ...) \
  do {                               \
  } while (0)
#define FI_DBG_TRACE(prov, subsystem, ...) \
  do {                                     \
  } while (0)
#endif

// Warns the first time this line is reached with warnings on, then never again.
#define FI_WARN_ONCE(prov, subsystem, ...)                                \
  do {                                                                    \
    static int fi_log_warned;                                             \
    if (!fi_log_warned && fi_log_enabled(prov, FI_LOG_WARN, subsystem)) { \
      fi_log_warned = 1;                                                  \
      FI_LOG_IF(1, prov, FI_LOG_WARN, subsystem, __VA_ARGS__);            \
    }                                                                     \
  } while (0)

#ifdef __cplusplus
}
#endif

#endif  // FI_LOG_H
