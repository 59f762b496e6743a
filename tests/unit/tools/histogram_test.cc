// SPDX-License-Identifier: BSD-2-Clause
// The log-linear histogram of fi_pingpong's percentiles, compared with sorted lists.
#include "tools/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace weft::tools {
namespace {

TEST(Histogram, IsZeroWhenEmpty) {
  auto h = std::make_unique<Histogram>();
  EXPECT_EQ(h->count(), 0u);
  EXPECT_EQ(h->min(), 0u);
  EXPECT_EQ(h->max(), 0u);
  EXPECT_EQ(h->mean(), 0);
  EXPECT_EQ(h->percentile(50), 0u);
}

TEST(Histogram, SingleValueIsEveryPercentile) {
  for (uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{255}, uint64_t{256}, uint64_t{123456789}, ~uint64_t{0}}) {
    auto h = std::make_unique<Histogram>();
    h->record(value);
    for (double percent : {0.001, 50.0, 99.9, 100.0}) EXPECT_EQ(h->percentile(percent), value) << percent;
    EXPECT_EQ(h->min(), value);
    EXPECT_EQ(h->max(), value);
  }
}

TEST(Histogram, SmallValuesAreExact) {
  auto h = std::make_unique<Histogram>();
  for (uint64_t value = 1; value <= 200; ++value) h->record(value);
  for (uint64_t percent = 1; percent <= 100; ++percent)
    EXPECT_EQ(h->percentile(static_cast<double>(percent)), 2 * percent);
  EXPECT_DOUBLE_EQ(h->mean(), 100.5);
}

TEST(Histogram, AgreesWithASortedListToOnePercent) {
  std::mt19937_64 random(42);
  std::lognormal_distribution<double> times(9, 2);  // 8 us and a long tail, in ns
  auto h = std::make_unique<Histogram>();
  std::vector<uint64_t> values(10000);
  for (uint64_t& value : values) h->record(value = static_cast<uint64_t>(times(random)));
  std::sort(values.begin(), values.end());
  for (std::size_t per_mille : {1u, 100u, 500u, 900u, 990u, 999u, 1000u}) {
    const double percent = static_cast<double>(per_mille) / 10;
    const uint64_t exact = values[values.size() * per_mille / 1000 - 1];
    EXPECT_GE(h->percentile(percent), exact) << percent;
    EXPECT_LE(static_cast<double>(h->percentile(percent)), static_cast<double>(exact) * 1.01 + 1) << percent;
  }
  EXPECT_EQ(h->min(), values.front());
  EXPECT_EQ(h->percentile(100), values.back());
}

TEST(Histogram, OneOutlierInAThousandIsAboveP99AndInP999) {
  auto h = std::make_unique<Histogram>();
  for (int i = 0; i < 998; ++i) h->record(100);
  h->record(1'000'000);
  h->record(1'000'000);
  EXPECT_EQ(h->percentile(99), 100u);
  EXPECT_EQ(h->percentile(99.9), 1'000'000u);
}

TEST(Histogram, ClearResetsEverything) {
  auto h = std::make_unique<Histogram>();
  h->record(5);
  h->clear();
  h->record(9);
  EXPECT_EQ(h->count(), 1u);
  EXPECT_EQ(h->min(), 9u);
  EXPECT_EQ(h->percentile(1), 9u);
}

// A tool with one on its stack ended by SIGSEGV where the stack has 64 KiB (ulimit -s 64).
TEST(Histogram, TakesLittleRoomOfAStack) {
  EXPECT_LT(sizeof(Histogram), 256u);
}

}  // namespace
}  // namespace weft::tools
