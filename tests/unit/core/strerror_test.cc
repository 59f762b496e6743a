// SPDX-License-Identifier: BSD-2-Clause
// fi_strerror: numbers of errno, of libfabric, and unknown ones; fi_errno(3).
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <climits>

namespace {

TEST(StrError, FabricCodes) {
  EXPECT_STREQ(fi_strerror(FI_EOTHER), "Unspecified error");
  EXPECT_STREQ(fi_strerror(FI_ETOOSMALL), "Provided buffer is too small");
  EXPECT_STREQ(fi_strerror(FI_EAVAIL), "Error available");
  EXPECT_STREQ(fi_strerror(FI_ENORX), "Receiver not ready, no receive buffers available");
  EXPECT_STRNE(fi_strerror(FI_EFIREWALLADDR), fi_strerror(FI_EOTHER));
  EXPECT_STREQ(fi_strerror(FI_ERRNO_MAX), fi_strerror(FI_EOTHER));
}

TEST(StrError, SystemCodes) {
  EXPECT_STREQ(fi_strerror(0), "Success");
  EXPECT_STREQ(fi_strerror(FI_ENODATA), "No data available");
  EXPECT_STREQ(fi_strerror(255), "Unknown error 255");
}

TEST(StrError, EitherSign) {
  EXPECT_STREQ(fi_strerror(-FI_ENODATA), fi_strerror(FI_ENODATA));
  EXPECT_STREQ(fi_strerror(-FI_ENOCQ), fi_strerror(FI_ENOCQ));
  EXPECT_STREQ(fi_strerror(INT_MIN), fi_strerror(FI_EOTHER));
  EXPECT_STREQ(fi_strerror(INT_MAX), fi_strerror(FI_EOTHER));
}

}  // namespace
