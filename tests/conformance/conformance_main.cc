// SPDX-License-Identifier: BSD-2-Clause
// The program is fi_conform (fi_conform(1)), and GoogleTest's own where an option of GoogleTest is given: weft's tests
// are run so. Both start it again for a part in a process of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "fixture/child.h"
#include "program/driver.h"
#include "program/offers.h"
#include "program/one_sentence.h"
#include "two_hosts/server.h"

namespace {

// A filter that selects nothing is a failure: a ctest entry must not pass because its topic was renamed.
int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  if (testing::GTEST_FLAG(list_tests)) return result;
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fputs("no test matches the filter\n", stderr);
    return 1;
  }
  return result;
}

int run_role(std::string_view role) {
  if (role == conform::kOffersRole) return conform::print_offers();
  if (role == two_hosts::kAnswerRole) return two_hosts::answer();
  return child::run();
}

}  // namespace

int main(int argc, char** argv) {
  if (child::role()) return run_role(child::role());
  if (conform::is_child()) return conform::run_one(argc, argv);
  if (std::any_of(argv, argv + argc, [](std::string_view word) { return word.starts_with("--gtest_"); }))
    return run_tests(argc, argv);
  return conform::run_program(argc, argv);
}
