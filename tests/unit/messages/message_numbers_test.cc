// SPDX-License-Identifier: BSD-2-Clause
// The numbers of operations in responses of peers.
#include "messages/message_numbers.h"

#include <gtest/gtest.h>

#include <deque>

#include "../failing_allocations.h"

namespace weft::messages {
namespace {

struct Operation {
  std::uint64_t message = 0;
};

constexpr std::uint32_t index_of(std::uint64_t number) {
  return static_cast<std::uint32_t>(number);
}

TEST(MessageNumbers, FindTheirOperationUntilItEnds) {
  MessageNumbers<Operation> numbers;
  Operation first, second;
  const std::uint64_t number = numbers.assign(first);
  EXPECT_NE(number, 0u);
  EXPECT_EQ(numbers.assign(first), number) << "it has one already";
  EXPECT_EQ(numbers.find(number), &first);
  EXPECT_EQ(numbers.find(number + 1), nullptr);
  numbers.release(first);
  EXPECT_EQ(numbers.find(number), nullptr);
  const std::uint64_t next = numbers.assign(second);
  EXPECT_EQ(index_of(next), index_of(number)) << "the index is used again";
  EXPECT_NE(next, number);
  EXPECT_EQ(numbers.find(number), nullptr) << "a late response";
}

TEST(MessageNumbers, AFailingAllocationLosesNone) {
  MessageNumbers<Operation> numbers;
  std::deque<Operation> operations;
  for (std::uint32_t count = 0; count < 100; ++count) {
    Operation& operation = operations.emplace_back();
    test::fail_each_allocation([&](std::size_t nth, std::size_t) {
      const test::FailingAllocation failing(nth);
      return numbers.assign(operation) == 0;
    });
    EXPECT_EQ(index_of(numbers.assign(operation)), count);
  }
}

}  // namespace
}  // namespace weft::messages
