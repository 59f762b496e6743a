// SPDX-License-Identifier: BSD-2-Clause
// Status and Result.
#include "base/status.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Status, IsZeroOrNegative) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status(-ENOMEM).code(), -ENOMEM);
  EXPECT_EQ(Status(-ENOMEM).error(), ENOMEM);
  EXPECT_EQ(Status::from_errno(EPERM), Status(-EPERM));
  errno = ENOENT;
  EXPECT_EQ(Status::last_errno(), Status(-ENOENT));
}

TEST(Status, FailureWithoutErrnoIsAFailure) {
  EXPECT_EQ(Status::from_errno(0), Status(-EIO));
  EXPECT_EQ(Status::from_errno(-3), Status(-EIO));
}

TEST(Status, ResultsCarryStatus) {
  const Result<int> good = 5;
  const Result<int> bad = failure(ENOMEM);
  const Result<int> same = failure(bad.error());
  EXPECT_EQ(good.value(), 5);
  EXPECT_FALSE(bad);
  EXPECT_EQ(same.error().code(), -ENOMEM);
}

}  // namespace
}  // namespace weft
