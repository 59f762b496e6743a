// SPDX-License-Identifier: BSD-2-Clause
// The memory of a connected endpoint: a server has thousands.
#include <gtest/gtest.h>

#include "verbs/connection/endpoint.h"

namespace weft::verbs {
namespace {

TEST(EndpointSize, HasNotGrown) {
  EXPECT_LE(sizeof(Endpoint), 1032u);
}

}  // namespace
}  // namespace weft::verbs
