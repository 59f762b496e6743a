// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations of a peer: a valid one is executed completely or not at all, and counted; others are refused.
#include "rdm/atomics.h"

#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <array>
#include <vector>

#include "abi/ops.h"

namespace weft::rdm {
namespace {

constexpr std::size_t kLimit = 64;

ReceivedAtomic::Words words(AtomicKind kind, fi_datatype datatype, fi_op operation) {
  return {static_cast<unsigned>(kind), static_cast<unsigned>(datatype), static_cast<unsigned>(operation)};
}
bool is_valid(const ReceivedAtomic::Words& words, const std::vector<AtomicRange>& where, std::size_t len) {
  ReceivedAtomic demand;
  return demand.read(words, where, len, kLimit);
}

const auto kSum = words(AtomicKind::kUpdate, FI_UINT64, FI_SUM);
const auto kRead = words(AtomicKind::kFetch, FI_UINT64, FI_ATOMIC_READ);
const auto kSwap = words(AtomicKind::kCompare, FI_UINT64, FI_CSWAP);

TEST(ReceivedAtomic, LengthOfTheArraysMustMatchTheOperation) {
  EXPECT_TRUE(is_valid(kSum, {{0, 2, 1}}, 16));
  EXPECT_TRUE(is_valid(kSum, {{0, 1, 1}, {0, 1, 1}}, 16));
  EXPECT_FALSE(is_valid(kSum, {{0, 2, 1}}, 8));
  EXPECT_FALSE(is_valid(kSum, {{0, 2, 1}}, 17));
  EXPECT_TRUE(is_valid(kRead, {{0, 2, 1}}, 0));
  EXPECT_FALSE(is_valid(kRead, {{0, 2, 1}}, 16));
  EXPECT_TRUE(is_valid(kSwap, {{0, 2, 1}}, 32));
  EXPECT_FALSE(is_valid(kSwap, {{0, 2, 1}}, 16));
}

TEST(ReceivedAtomic, UnknownOperationsAreRefused) {
  EXPECT_FALSE(is_valid({3, FI_UINT64, FI_SUM}, {{0, 1, 1}}, 8));
  EXPECT_FALSE(is_valid({0, 200, FI_SUM}, {{0, 1, 1}}, 8));
  EXPECT_FALSE(is_valid({0, FI_UINT64, 200}, {{0, 1, 1}}, 8));
  EXPECT_FALSE(is_valid(words(AtomicKind::kUpdate, FI_UINT64, FI_CSWAP), {{0, 1, 1}}, 8));
  EXPECT_FALSE(is_valid(words(AtomicKind::kUpdate, FI_FLOAT, FI_BAND), {{0, 1, 1}}, 4));
  EXPECT_FALSE(is_valid(kSum, {}, 0));
  EXPECT_FALSE(is_valid(kSum, std::vector<AtomicRange>(kMaxAtomicRanges + 1, {0, 1, 1}), 40));
}

TEST(ReceivedAtomic, LengthsDoNotOverflow) {
  EXPECT_TRUE(is_valid(kRead, {{0, 8, 1}}, 0));
  for (const std::uint64_t count : {std::uint64_t{9}, std::uint64_t{1} << 61, ~std::uint64_t{0}})
    EXPECT_FALSE(is_valid(kRead, {{0, count, 1}}, 0)) << count;
  EXPECT_FALSE(is_valid(kRead, {{0, 8, 1}, {0, 1, 1}}, 0)) << "the total exceeds the limit";
}

TEST(ReceivedAtomic, AllRangesOrNoneAreTouched) {
  MemoryRegions regions({});
  alignas(8) std::array<std::uint64_t, 4> memory{1, 2, 3, 4};
  fid_mr* region = nullptr;
  const iovec range{memory.data(), sizeof memory};
  const fi_mr_attr attr = describe_region(&range, 1, FI_REMOTE_WRITE, 0, 7, nullptr);
  ASSERT_EQ(regions.regattr(&attr, 0, &region), 0);
  const std::uint64_t key = fi_mr_key(region);
  CompletionRoutes routes;
  const std::array<std::uint64_t, 2> operands{10, 20};
  const auto* const arrays = reinterpret_cast<const std::byte*>(operands.data());
  ReceivedAtomic demand;
  ASSERT_TRUE(demand.read(kSum, std::vector<AtomicRange>{{0, 1, key}, {32, 1, key}}, 16, kLimit));
  EXPECT_EQ(demand.execute(regions, routes, arrays, nullptr), -FI_EACCES);
  ASSERT_TRUE(demand.read(kSum, std::vector<AtomicRange>{{0, 1, key}, {0, 1, key + 1}}, 16, kLimit));
  EXPECT_EQ(demand.execute(regions, routes, arrays, nullptr), -FI_ENOKEY);
  EXPECT_EQ(memory[0], 1u);
  ASSERT_TRUE(demand.read(kRead, std::vector<AtomicRange>{{0, 1, key}}, 0, kLimit));
  std::uint64_t result = 0;
  EXPECT_EQ(demand.execute(regions, routes, nullptr, reinterpret_cast<std::byte*>(&result)), -FI_EACCES)
      << "the region is not readable";
  ASSERT_TRUE(demand.read(kSum, std::vector<AtomicRange>{{8, 1, key}, {24, 1, key}}, 16, kLimit));
  EXPECT_EQ(demand.result_len(), 0u);
  EXPECT_EQ(demand.execute(regions, routes, arrays, nullptr), 0);
  EXPECT_EQ(memory, (std::array<std::uint64_t, 4>{1, 12, 3, 24}));
  EXPECT_EQ(fi_close(&region->fid), 0);
}

}  // namespace
}  // namespace weft::rdm
