// SPDX-License-Identifier: BSD-2-Clause
// The message sizes of fi_pingpong -S, and the numbers in its table.
#include "tools/message_sizes.h"

#include <gtest/gtest.h>

namespace weft::tools {
namespace {

using Sizes = std::vector<std::size_t>;

TEST(MessageSizes, OneOrSeveralWithUnits) {
  EXPECT_EQ(*parse_sizes("64"), Sizes{64});
  EXPECT_EQ(*parse_sizes("0"), Sizes{0});
  EXPECT_EQ(*parse_sizes("1,4k,2M,1g"), (Sizes{1, 4096, 2097152, 1073741824}));
}

TEST(MessageSizes, InvalidSizesAreNamed) {
  for (const char* text :
       {"", "x", "-1", "64,", ",64", "64 ", "4kk", "4kb", "1.5k", "99999999999999999999", "99999999999999999g"}) {
    auto sizes = parse_sizes(text);
    ASSERT_FALSE(sizes) << text;
    EXPECT_EQ(sizes.error().error, FI_EINVAL);
  }
  EXPECT_NE(parse_sizes("64,huge").error().what.find("'huge'"), std::string::npos);
}

TEST(MessageSizes, AllIsTheSeriesOfLibfabric) {
  const Sizes all = *parse_sizes("all");
  EXPECT_EQ(all.size(), 46u);
  EXPECT_EQ(Sizes(all.begin(), all.begin() + 9), (Sizes{0, 1, 2, 3, 4, 6, 8, 12, 16}));
  EXPECT_EQ(all.back(), std::size_t{6} << 20);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
}

TEST(MessageSizes, ShortBytesAreCutNotRounded) {
  EXPECT_EQ(short_bytes(0), "0");
  EXPECT_EQ(short_bytes(1023), "1023");
  EXPECT_EQ(short_bytes(1024), "1k");
  EXPECT_EQ(short_bytes(1280), "1.2k");
  EXPECT_EQ(short_bytes(2000), "1.9k");
  EXPECT_EQ(short_bytes(12000), "11k");
  EXPECT_EQ(short_bytes(1024000), "1000k");
  EXPECT_EQ(short_bytes(2097152000), "1.9g");
}

TEST(MessageSizes, ShortCountsAreWhole) {
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(1000), "1k");
  EXPECT_EQ(short_count(1999), "1k");
  EXPECT_EQ(short_count(12345), "12k");
  EXPECT_EQ(short_count(4000000), "4m");
}

}  // namespace
}  // namespace weft::tools
