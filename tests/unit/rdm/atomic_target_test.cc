// SPDX-License-Identifier: BSD-2-Clause
// What a peer asks for: what makes sense is carried out as a whole or not at all, and counted; the rest is refused.
#include "rdm/atomic_target.h"

#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <array>
#include <vector>

namespace weft::rdm {
namespace {

constexpr std::size_t kLimit = 64;

AtomicDemand::Words words(AtomicKind kind, fi_datatype datatype, fi_op operation) {
  return {static_cast<unsigned>(kind), static_cast<unsigned>(datatype), static_cast<unsigned>(operation)};
}
bool makes_sense(const AtomicDemand::Words& said, const std::vector<AtomicRange>& where, std::size_t len) {
  AtomicDemand demand;
  return demand.read(said, where, len, kLimit);
}

const auto kSum = words(AtomicKind::kUpdate, FI_UINT64, FI_SUM);
const auto kRead = words(AtomicKind::kFetch, FI_UINT64, FI_ATOMIC_READ);
const auto kSwap = words(AtomicKind::kCompare, FI_UINT64, FI_CSWAP);

TEST(AtomicDemand, ArraysMustBeThoseOfTheOperation) {
  EXPECT_TRUE(makes_sense(kSum, {{0, 2, 1}}, 16));
  EXPECT_TRUE(makes_sense(kSum, {{0, 1, 1}, {0, 1, 1}}, 16));
  EXPECT_FALSE(makes_sense(kSum, {{0, 2, 1}}, 8));
  EXPECT_FALSE(makes_sense(kSum, {{0, 2, 1}}, 17));
  EXPECT_TRUE(makes_sense(kRead, {{0, 2, 1}}, 0));
  EXPECT_FALSE(makes_sense(kRead, {{0, 2, 1}}, 16));
  EXPECT_TRUE(makes_sense(kSwap, {{0, 2, 1}}, 32));
  EXPECT_FALSE(makes_sense(kSwap, {{0, 2, 1}}, 16));
}

TEST(AtomicDemand, WhatThereIsNotIsRefused) {
  EXPECT_FALSE(makes_sense({3, FI_UINT64, FI_SUM}, {{0, 1, 1}}, 8));
  EXPECT_FALSE(makes_sense({0, 200, FI_SUM}, {{0, 1, 1}}, 8));
  EXPECT_FALSE(makes_sense({0, FI_UINT64, 200}, {{0, 1, 1}}, 8));
  EXPECT_FALSE(makes_sense(words(AtomicKind::kUpdate, FI_UINT64, FI_CSWAP), {{0, 1, 1}}, 8));
  EXPECT_FALSE(makes_sense(words(AtomicKind::kUpdate, FI_FLOAT, FI_BAND), {{0, 1, 1}}, 4));
  EXPECT_FALSE(makes_sense(kSum, {}, 0));
  EXPECT_FALSE(makes_sense(kSum, std::vector<AtomicRange>(kMaxAtomicRanges + 1, {0, 1, 1}), 40));
}

TEST(AtomicDemand, LengthsDoNotOverflow) {
  EXPECT_TRUE(makes_sense(kRead, {{0, 8, 1}}, 0));
  for (const std::uint64_t count : {std::uint64_t{9}, std::uint64_t{1} << 61, ~std::uint64_t{0}})
    EXPECT_FALSE(makes_sense(kRead, {{0, count, 1}}, 0)) << count;
  EXPECT_FALSE(makes_sense(kRead, {{0, 8, 1}, {0, 1, 1}}, 0)) << "more than the limit in all";
}

TEST(AtomicDemand, AllRangesOrNoneAreTouched) {
  MemoryRegions regions({});
  alignas(8) std::array<std::uint64_t, 4> memory{1, 2, 3, 4};
  fid_mr* region = nullptr;
  ASSERT_EQ(regions.reg(memory.data(), sizeof memory, FI_REMOTE_WRITE, 0, 7, 0, &region, nullptr), 0);
  const std::uint64_t key = fi_mr_key(region);
  CompletionRoutes routes;
  const std::array<std::uint64_t, 2> operands{10, 20};
  const auto* const arrays = reinterpret_cast<const std::byte*>(operands.data());
  AtomicDemand demand;
  ASSERT_TRUE(demand.read(kSum, std::vector<AtomicRange>{{0, 1, key}, {32, 1, key}}, 16, kLimit));
  EXPECT_EQ(demand.carry_out(regions, routes, arrays, nullptr), -FI_EACCES);
  ASSERT_TRUE(demand.read(kSum, std::vector<AtomicRange>{{0, 1, key}, {0, 1, key + 1}}, 16, kLimit));
  EXPECT_EQ(demand.carry_out(regions, routes, arrays, nullptr), -FI_ENOKEY);
  EXPECT_EQ(memory[0], 1u);
  ASSERT_TRUE(demand.read(kRead, std::vector<AtomicRange>{{0, 1, key}}, 0, kLimit));
  std::uint64_t result = 0;
  EXPECT_EQ(demand.carry_out(regions, routes, nullptr, reinterpret_cast<std::byte*>(&result)), -FI_EACCES)
      << "it may not be read";
  ASSERT_TRUE(demand.read(kSum, std::vector<AtomicRange>{{8, 1, key}, {24, 1, key}}, 16, kLimit));
  EXPECT_EQ(demand.result_len(), 0u);
  EXPECT_EQ(demand.carry_out(regions, routes, arrays, nullptr), 0);
  EXPECT_EQ(memory, (std::array<std::uint64_t, 4>{1, 12, 3, 24}));
  EXPECT_EQ(fi_close(&region->fid), 0);
}

}  // namespace
}  // namespace weft::rdm
