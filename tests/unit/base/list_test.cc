// SPDX-License-Identifier: BSD-2-Clause
// The intrusive list: order, removal from anywhere, splicing, membership in two lists at once.
#include "base/list.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

struct SecondTag;
struct Item : ListHook<Item>, ListHook<SecondTag> {
  explicit Item(int number) : value(number) {}
  int value;
};
using First = List<Item>;
using Second = List<Item, SecondTag>;

template <class L>
std::vector<int> values(L& list) {
  std::vector<int> out;
  for (Item& item : list) out.push_back(item.value);
  return out;
}

TEST(List, KeepsOrderOfInsertionAtBothEnds) {
  Item a(1), b(2), c(3);
  First list;
  list.push_back(b);
  list.push_back(c);
  list.push_front(a);
  EXPECT_EQ(values(list), (std::vector{1, 2, 3}));
  EXPECT_EQ(list.pop_front().value, 1);
  EXPECT_EQ(list.back().value, 3);
}

TEST(List, ElementLeavesFromTheMiddleAndWhenDestroyed) {
  First list;
  Item a(1), c(3);
  list.push_back(a);
  {
    Item b(2);
    list.push_back(b);
    list.push_back(c);
    a.ListHook<Item>::unlink();
    a.ListHook<Item>::unlink();  // unlinking twice is harmless
    EXPECT_EQ(values(list), (std::vector{2, 3}));
  }
  EXPECT_EQ(values(list), (std::vector{3}));
}

TEST(List, SpliceMovesAllAndLeavesTheOtherEmpty) {
  Item a(1), b(2), c(3);
  First list, other, empty;
  list.push_back(a);
  other.push_back(b);
  other.push_back(c);
  list.splice_back(other);
  list.splice_back(empty);
  EXPECT_TRUE(other.empty());
  EXPECT_EQ(values(list), (std::vector{1, 2, 3}));
  other.push_back(list.pop_front());
  EXPECT_EQ(values(other), (std::vector{1}));
}

TEST(List, ElementIsInTwoListsIndependently) {
  Item a(1), b(2);
  First first;
  Second second;
  first.push_back(a);
  first.push_back(b);
  second.push_back(b);
  second.push_back(a);
  a.ListHook<Item>::unlink();
  EXPECT_EQ(values(first), (std::vector{2}));
  EXPECT_EQ(values(second), (std::vector{2, 1}));
}

TEST(List, ElementsOutliveTheList) {
  Item a(1);
  {
    First list;
    list.push_back(a);
  }
  EXPECT_FALSE(a.ListHook<Item>::linked());
}

}  // namespace
}  // namespace weft
