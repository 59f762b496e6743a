// SPDX-License-Identifier: BSD-2-Clause
// The child of fi_conform that checks one sentence: runs its test for each address family and writes what happened, as
// records, to the descriptor that FI_CONFORM_RECORDS names. A record is a letter, text, and kRecordEnd.
#pragma once
#include <string>

namespace conform {

inline constexpr const char* kRecordsVariable = "FI_CONFORM_RECORDS";
inline constexpr char kRecordEnd = '\x1e';
inline constexpr char kTargetEnd = '\x1f';  // ends the target's name in records of a test

enum Record : char {
  kPassed = 'P',   // target
  kFailed = 'F',   // target, message
  kSkipped = 'S',  // target, message
  kAbsent = 'A',   // target, message: a failure because the library lacks what the test needs
  kPlace = 'C',    // the call in progress when a signal arrived
  kEnd = 'E',      // main is about to return
};

bool is_child();
int run_one(int argc, char** argv);

}  // namespace conform
