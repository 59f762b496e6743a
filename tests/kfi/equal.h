// SPDX-License-Identifier: BSD-2-Clause
// An assertion at compile time for C99, C11 and C++17.
#ifndef KFI_TESTS_EQUAL_H
#define KFI_TESTS_EQUAL_H

#define NAMED(line) check_of_line_##line
#define AT(line) NAMED(line)
// An array of negative size where they differ.
#define EQUAL(value, expected) \
  extern char AT(__LINE__)[(unsigned long long)(value) == (unsigned long long)(expected) ? 1 : -1]

#endif  // KFI_TESTS_EQUAL_H
