// SPDX-License-Identifier: BSD-2-Clause
// The number of the process is right in forked children, too.
#include "tcp/this_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::tcp {
namespace {

TEST(ThisProcess, IsRightInEachGeneration) {
  EXPECT_EQ(this_process(), ::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = this_process() == ::getpid();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(this_process() == ::getpid() ? 0 : 1);
    int status = 1;
    ::waitpid(grandchild, &status, 0);
    right = right && status == 0 && this_process() == ::getpid();
    ::_exit(right ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(this_process(), ::getpid());
}

}  // namespace
}  // namespace weft::tcp
