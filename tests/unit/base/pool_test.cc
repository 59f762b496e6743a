// SPDX-License-Identifier: BSD-2-Clause
// The record pool: distinct records, reuse without allocation, construction and destruction of each record.
#include "base/pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace weft {
namespace {

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  static inline int alive = 0;
  int value = 7;
};

TEST(Pool, RecordsAreDistinctAndFreshlyConstructed) {
  Pool<Counted> pool;
  std::set<Counted*> records;
  for (int i = 0; i < 100; ++i) {
    Counted* record = pool.take();
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(record->value, 7);
    record->value = i;
    EXPECT_TRUE(records.insert(record).second);
  }
  EXPECT_EQ(Counted::alive, 100);
  for (Counted* record : records) pool.give_back(record);
  EXPECT_EQ(Counted::alive, 0);
}

TEST(Pool, ReturnedRecordsAreHandedOutAgain) {
  Pool<Counted> pool;
  std::vector<Counted*> first;
  for (int i = 0; i < 50; ++i) first.push_back(pool.take());
  const std::set<Counted*> known(first.begin(), first.end());
  for (Counted* record : first) pool.give_back(record);
  for (int i = 0; i < 50; ++i) {
    Counted* record = pool.take();
    EXPECT_TRUE(known.contains(record));
    EXPECT_EQ(record->value, 7);
    first[static_cast<std::size_t>(i)] = record;
  }
  for (Counted* record : first) pool.give_back(record);
}

TEST(Pool, RecordsAreAligned) {
  struct alignas(64) Aligned {
    char bytes[64];
  };
  Pool<Aligned> pool;
  std::vector<Aligned*> records;
  for (int i = 0; i < 40; ++i) {
    records.push_back(pool.take());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(records.back()) % 64, 0u);
  }
  for (Aligned* record : records) pool.give_back(record);
}

}  // namespace
}  // namespace weft
