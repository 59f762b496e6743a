// SPDX-License-Identifier: BSD-2-Clause
// The growing FIFO against std::deque.
#include "base/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace weft {
namespace {

TEST(Ring, BehavesLikeADeque) {
  Ring<int> ring;
  std::deque<int> model;
  std::minstd_rand random(1);
  for (int step = 0; step < 20000; ++step) {
    switch (random() % 5) {
      case 0:
      case 1:
        ring.push_back(step);
        model.push_back(step);
        break;
      case 2:
        ring.push_front(step);
        model.push_front(step);
        break;
      default:
        if (model.empty()) break;
        ring.pop_front();
        model.pop_front();
    }
    ASSERT_EQ(ring.size(), model.size());
    ASSERT_EQ(ring.empty(), model.empty());
    if (model.empty()) continue;
    ASSERT_EQ(ring.front(), model.front());
    ASSERT_EQ(ring.back(), model.back());
    const size_t i = random() % model.size();
    ASSERT_EQ(ring[i], model[i]);
  }
}

TEST(Ring, ReserveMakesRoomOnce) {
  Ring<int> ring;
  ring.reserve(100);
  const size_t capacity = ring.capacity();
  EXPECT_GE(capacity, 100u);
  for (int i = 0; i < 100; ++i) ring.push_back(i);
  EXPECT_EQ(ring.capacity(), capacity);
}

}  // namespace
}  // namespace weft
