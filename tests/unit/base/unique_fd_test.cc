// SPDX-License-Identifier: BSD-2-Clause
// Descriptors are closed exactly once; the optional lock.
#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/mutex.h"

namespace weft {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}
int open_null() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  int fd;
  {
    UniqueFd first(open_null());
    fd = first.get();
    const UniqueFd second(std::move(first));
    EXPECT_FALSE(first);
    EXPECT_EQ(second.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, ReleasesAndReplaces) {
  UniqueFd owner(open_null());
  const int first = owner.get();
  owner = UniqueFd(open_null());
  EXPECT_FALSE(is_open(first));
  const int second = owner.release();
  EXPECT_FALSE(owner);
  EXPECT_TRUE(is_open(second));
  owner.reset(second);
  owner.reset();
  EXPECT_FALSE(is_open(second));
}

TEST(Mutex, LocksOnlyIfEnabled) {
  Mutex enabled;
  Mutex disabled(false);
  const Lock hold_enabled(enabled);
  const Lock hold_disabled(disabled);
  EXPECT_FALSE(enabled.try_lock());
  EXPECT_TRUE(disabled.try_lock());
}

}  // namespace
}  // namespace weft
