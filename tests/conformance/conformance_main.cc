// SPDX-License-Identifier: BSD-2-Clause
// Runs the suite. A filter that selects nothing is a failure: a ctest entry must not pass because its topic was
// renamed.
#include <gtest/gtest.h>

#include <cstdio>

#include "fixture/child.h"

int main(int argc, char** argv) {
  if (child::role()) return child::run();
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  if (testing::GTEST_FLAG(list_tests)) return result;
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fputs("no test matches the filter\n", stderr);
    return 1;
  }
  return result;
}
