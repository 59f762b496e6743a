// SPDX-License-Identifier: BSD-2-Clause
// The socket opened in advance: only for repeated connections, of the right family, never more than one.
#include "tcp/spare_socket.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

namespace weft::tcp {
namespace {

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(SpareSocket, IsNotOpenedForASingleConnection) {
  SpareSocket spare;
  const UniqueFd first(spare.take(AF_INET));
  ASSERT_TRUE(first);
  const auto before = descriptors();
  spare.refill();
  EXPECT_EQ(descriptors(), before);
}

TEST(SpareSocket, ServesTheNextConnection) {
  SpareSocket spare;
  const UniqueFd first(spare.take(AF_INET));
  const UniqueFd second(spare.take(AF_INET));
  const auto before = descriptors();
  spare.refill();
  spare.refill();
  EXPECT_EQ(descriptors(), before + 1);
  const UniqueFd third(spare.take(AF_INET));
  EXPECT_TRUE(third);
  EXPECT_EQ(descriptors(), before + 1);
}

TEST(SpareSocket, IsNotUsedForAnotherFamily) {
  SpareSocket spare;
  const UniqueFd first(spare.take(AF_INET));
  const UniqueFd second(spare.take(AF_INET));
  spare.refill();
  const UniqueFd third(spare.take(AF_INET6));
  ASSERT_TRUE(third);
  int family = 0;
  socklen_t len = sizeof family;
  ASSERT_EQ(getsockopt(third.get(), SOL_SOCKET, SO_DOMAIN, &family, &len), 0);
  EXPECT_EQ(family, AF_INET6);
}

TEST(SpareSocket, IsClosedWithItsOwner) {
  const auto before = descriptors();
  {
    SpareSocket spare;
    const UniqueFd first(spare.take(AF_INET));
    const UniqueFd second(spare.take(AF_INET));
    spare.refill();
  }
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace weft::tcp
