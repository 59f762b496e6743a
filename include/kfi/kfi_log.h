// SPDX-License-Identifier: BSD-2-Clause
//
// Log lines of kernel programs: to standard error, with MODULE_NAME, which a program defines first. LOG_DEBUG writes
// with DEBUG defined only, as in a kernel.
#ifndef KFI_LOG_H
#define KFI_LOG_H

#include <stdarg.h>
#include <stdio.h>

#ifndef MODULE_NAME
#define MODULE_NAME "KFI"
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Writes one line in one call, so that those of threads do not mix; what exceeds 1000 characters is cut.
__attribute__((format(printf, 3, 4))) static inline void kfi_log(const char* module, const char* level,
                                                                 const char* format, ...) {
  char line[1000];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%s: %s: %s\n", module, level, line);
}

#ifdef __cplusplus
}
#endif

#ifdef DEBUG
#define LOG_DEBUG(...) kfi_log(MODULE_NAME, "debug", __VA_ARGS__)
#else
#define LOG_DEBUG(...) ((void)(0 && (kfi_log(MODULE_NAME, "debug", __VA_ARGS__), 0)))
#endif
#define LOG_DEFAULT(...) kfi_log(MODULE_NAME, "default", __VA_ARGS__)
#define LOG_INFO(...) kfi_log(MODULE_NAME, "info", __VA_ARGS__)
#define LOG_NOTICE(...) kfi_log(MODULE_NAME, "notice", __VA_ARGS__)
#define LOG_WARN(...) kfi_log(MODULE_NAME, "warning", __VA_ARGS__)
#define LOG_ERR(...) kfi_log(MODULE_NAME, "error", __VA_ARGS__)
#define LOG_ERR_RL(...) LOG_ERR(__VA_ARGS__)  // not limited in rate
#define LOG_CRIT(...) kfi_log(MODULE_NAME, "critical", __VA_ARGS__)
#define LOG_ALERT(...) kfi_log(MODULE_NAME, "alert", __VA_ARGS__)
#define LOG_EMERG(...) kfi_log(MODULE_NAME, "emergency", __VA_ARGS__)

#endif  // KFI_LOG_H
