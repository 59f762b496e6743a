// SPDX-License-Identifier: BSD-2-Clause
// The memory of a connected endpoint: a server has thousands.
#include <gtest/gtest.h>

#include "tcp/connection/endpoint.h"

namespace weft::tcp {
namespace {

TEST(EndpointSize, HasNotGrown) {
  EXPECT_LE(sizeof(Endpoint), 1232u);
}

}  // namespace
}  // namespace weft::tcp
