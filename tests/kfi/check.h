// SPDX-License-Identifier: BSD-2-Clause
// Checks of the programs in C: a failed one prints itself and ends the program.
#ifndef KFI_TESTS_CHECK_H
#define KFI_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

// 0, or the call's error is printed.
#define OK(call)                                                                                                 \
  do {                                                                                                           \
    long result_ = (long)(call);                                                                                 \
    if (result_ != 0) {                                                                                          \
      fprintf(stderr, "%s:%d: %s: %s (%ld)\n", __FILE__, __LINE__, #call, kfi_strerror((int)-result_), result_); \
      exit(1);                                                                                                   \
    }                                                                                                            \
  } while (0)

#endif  // KFI_TESTS_CHECK_H
