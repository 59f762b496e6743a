// SPDX-License-Identifier: BSD-2-Clause
// The pseudo-random function behind keys: the vector of its authors, and secrets that differ.
#include "base/keyed_hash.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// SipHash-2-4 of the bytes 0 to 7 with the secret of the bytes 0 to 15.
TEST(KeyedHashTest, MatchesThePublishedVector) {
  const KeyedHash hash(0x0706050403020100, 0x0f0e0d0c0b0a0908);
  EXPECT_EQ(hash(0x0706050403020100), 0x93f5f5799a932462u);
}

TEST(KeyedHashTest, EachHasASecretOfItsOwn) {
  EXPECT_NE(KeyedHash()(1), KeyedHash()(1));
}

}  // namespace
}  // namespace weft
