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
    if (random() % 5 < 3) {
      ring.push_back(step);
      model.push_back(step);
    } else if (!model.empty()) {
      ring.pop_front();
      model.pop_front();
    }
    ASSERT_EQ(ring.size(), model.size());
    ASSERT_EQ(ring.empty(), model.empty());
    if (model.empty()) continue;
    ASSERT_EQ(ring.front(), model.front());
    const size_t i = random() % model.size();
    ASSERT_EQ(ring[i], model[i]);
  }
}

}  // namespace
}  // namespace weft
