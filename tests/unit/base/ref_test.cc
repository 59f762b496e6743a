// SPDX-License-Identifier: BSD-2-Clause
// Use counts from children to parents.
#include "base/ref.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weft {
namespace {

struct Parent : RefCounted {};

TEST(Ref, CountsCopiesMovesAndAssignments) {
  Parent a;
  Parent b;
  EXPECT_FALSE(a.in_use());
  {
    Ref<Parent> first(a);
    const Ref<Parent> copy = first;
    const Ref<Parent> moved = std::move(first);
    EXPECT_EQ(first.get(), nullptr);
    EXPECT_FALSE(first);
    EXPECT_EQ(&*moved, &a);
    Ref<Parent> other(b);
    other = copy;
    EXPECT_FALSE(b.in_use());
    EXPECT_TRUE(a.in_use());
    Ref<Parent> empty;
    empty = Ref<Parent>();
  }
  EXPECT_FALSE(a.in_use());
}

TEST(Ref, RefToABaseCounts) {
  Parent parent;
  const Ref<RefCounted> ref(parent);
  EXPECT_TRUE(parent.in_use());
}

TEST(Ref, ManyThreadsMayHoldRefs) {
  Parent parent;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) Ref<Parent> ref(parent);
      });
  }
  EXPECT_FALSE(parent.in_use());
}

}  // namespace
}  // namespace weft
