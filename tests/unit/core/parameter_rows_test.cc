// SPDX-License-Identifier: BSD-2-Clause
// Rows of parameters (objects/parameter_rows.h) with the core that reads them: the range of each type.
#include "objects/parameter_rows.h"

#include "fake_provider.h"

namespace weft {
namespace {

struct Values {
  int count = 1;
  std::size_t bytes = 2;
  std::size_t depth = 3;
  std::uint16_t port = 4;
};

constexpr ParameterRow<Values> kRows[] = {{"count", &Values::count, "An int"},
                                          {"bytes", &Values::bytes, "A number of bytes", 0, kMaxBytes},
                                          {"depth", &Values::depth, "A size", 1, 1024},
                                          {"port", &Values::port, "A port", 0, 65535}};

class ParameterRowsTest : public core::CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    define_parameters(&provider_, kRows);
  }
  // The values when all four parameters have this text.
  Values read(const char* text) {
    for (const char* variable : {"FI_ZORK_COUNT", "FI_ZORK_BYTES", "FI_ZORK_DEPTH", "FI_ZORK_PORT"})
      set(variable, text);
    return read_parameters(&provider_, kRows);
  }

  fi_provider provider_ = [] {
    fi_provider provider{};
    provider.name = "zork";
    return provider;
  }();
};

TEST_F(ParameterRowsTest, EachNumberIsTaken) {
  const Values values = read("0x200");
  EXPECT_EQ(values.count, 512);
  EXPECT_EQ(values.bytes, 512u);
  EXPECT_EQ(values.depth, 512u);
  EXPECT_EQ(values.port, 512);
}

TEST_F(ParameterRowsTest, SizesMayBeBeyondTwoGibibytes) {
  record();
  const Values values = read("8589934592");
  EXPECT_EQ(values.bytes, std::size_t{1} << 33);
  EXPECT_EQ(values.count, 1);
  EXPECT_EQ(values.depth, 3u);
  EXPECT_EQ(values.port, 4);
  EXPECT_TRUE(logged("parameter depth must be a number from 1 to 1024"));
}

TEST_F(ParameterRowsTest, WrongNumbersAreIgnored) {
  for (const char* wrong : {"-1", "4k", "x", "18446744073709551615"}) {
    const Values values = read(wrong);
    EXPECT_EQ(values.count, 1) << wrong;
    EXPECT_EQ(values.bytes, 2u) << wrong;
    EXPECT_EQ(values.depth, 3u) << wrong;
    EXPECT_EQ(values.port, 4) << wrong;
  }
}

TEST_F(ParameterRowsTest, TextIsNamedOnce) {
  record();
  (void)read("4k");
  EXPECT_TRUE(logged("has the wrong type and is ignored"));
  EXPECT_FALSE(logged("must be a number"));
}

}  // namespace
}  // namespace weft
