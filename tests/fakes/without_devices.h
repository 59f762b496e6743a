// SPDX-License-Identifier: BSD-2-Clause
// Tests that add the devices of their own, and leave neither a device nor an object.
#pragma once

#include <gtest/gtest.h>

#include "fake_rdma.h"

class WithoutDevices : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    fake::retire_devices();
  }
  void TearDown() override {
    fake::reset();
    fake::retire_devices();
    EXPECT_EQ(fake::leaks(), "");
  }
};
