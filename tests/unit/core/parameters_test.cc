// SPDX-License-Identifier: BSD-2-Clause
// Parameters: declared types, and values from the environment and libfabric.conf.
#include "core/parameters.h"

#include <climits>

#include "fake_provider.h"

namespace weft::core {
namespace {

class ParametersTest : public CoreTest {
 protected:
  fi_provider provider_ = [] {
    fi_provider provider{};
    provider.name = "ofi_zork";
    return provider;
  }();
};

TEST_F(ParametersTest, VariableNameIsUpperCaseWithPrefix) {
  EXPECT_EQ(Parameters::variable(&provider_, "eager_Size"), "FI_OFI_ZORK_EAGER_SIZE");
  EXPECT_EQ(Parameters::variable(nullptr, "hook"), "FI_HOOK");
}

TEST_F(ParametersTest, EnvironmentWinsUnlessTheFileIsPreferred) {
  const ConfigFile file("FI_X=file\nFI_Y=file");
  set("FI_X", "environment");
  set("FI_Z", "environment");
  const Parameters usual(file);
  EXPECT_STREQ(usual.text("FI_X"), "environment");
  EXPECT_STREQ(usual.text("FI_Y"), "file");
  EXPECT_STREQ(usual.text("FI_Z"), "environment");
  EXPECT_EQ(usual.text("FI_W"), nullptr);
  const Parameters flipped(file, true);
  EXPECT_STREQ(flipped.text("FI_X"), "file");
  EXPECT_STREQ(flipped.text("FI_Z"), "environment");
}

TEST_F(ParametersTest, ParseInt) {
  EXPECT_EQ(parse_int("-5").value(), -5);
  EXPECT_EQ(parse_int("0x10").value(), 16);
  EXPECT_EQ(parse_int("010").value(), 8);
  EXPECT_EQ(parse_int(" 7 ").value(), 7);
  EXPECT_EQ(parse_int("600", 8).value(), 0600);
  EXPECT_EQ(parse_int("2147483647").value(), INT_MAX);
  for (const char* bad : {"", " ", "abc", "12abc", "2147483648", "-2147483649", "99999999999999999999", "1 2"}) {
    EXPECT_EQ(parse_int(bad).error().code(), -FI_EINVAL) << bad;
  }
}

TEST_F(ParametersTest, ParseSize) {
  EXPECT_EQ(parse_size("18446744073709551615").value(), SIZE_MAX);
  EXPECT_EQ(parse_size("0x10").value(), 16u);
  for (const char* bad : {"", "-1", " -1", "18446744073709551616", "4k", "x"}) EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST_F(ParametersTest, ParseFlag) {
  for (const char* yes : {"1", "yes", "TRUE", "On"}) EXPECT_TRUE(parse_flag(yes).value()) << yes;
  for (const char* no : {"0", "no", "False", "OFF"}) EXPECT_FALSE(parse_flag(no).value()) << no;
  for (const char* bad : {"", "2", "y", "0x1", "truely"}) EXPECT_FALSE(parse_flag(bad).has_value()) << bad;
}

TEST_F(ParametersTest, GetDistinguishesUndefinedUnsetAndWrong) {
  int value = 77;
  EXPECT_EQ(fi_param_get_int(&provider_, "num", &value), -FI_ENOENT);
  ASSERT_EQ(fi_param_define(&provider_, "num", FI_PARAM_INT, "a number, %s", "really"), 0);
  EXPECT_EQ(fi_param_get_int(&provider_, "num", &value), -FI_ENODATA);
  set("FI_OFI_ZORK_NUM", "seven");
  EXPECT_EQ(fi_param_get_int(&provider_, "num", &value), -FI_EINVAL);
  EXPECT_EQ(value, 77);
  set("FI_OFI_ZORK_NUM", "7");
  EXPECT_EQ(fi_param_get_int(&provider_, "num", &value), 0);
  EXPECT_EQ(value, 7);
}

TEST_F(ParametersTest, GetReadsEveryType) {
  ASSERT_EQ(fi_param_define(&provider_, "flag", FI_PARAM_BOOL, "h"), 0);
  ASSERT_EQ(fi_param_define(&provider_, "size", FI_PARAM_SIZE_T, "h"), 0);
  ASSERT_EQ(fi_param_define(nullptr, "word", FI_PARAM_STRING, "h"), 0);
  set("FI_OFI_ZORK_FLAG", "on");
  set("FI_OFI_ZORK_SIZE", "4294967296");
  set("FI_WORD", "text");
  int flag = 5;
  size_t size = 0;
  char* word = nullptr;
  EXPECT_EQ(fi_param_get_bool(&provider_, "flag", &flag), 0);
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(fi_param_get_size_t(&provider_, "size", &size), 0);
  EXPECT_EQ(size, 1ull << 32);
  EXPECT_EQ(fi_param_get_str(nullptr, "word", &word), 0);
  EXPECT_STREQ(word, "text");
  set("FI_OFI_ZORK_FLAG", "perhaps");
  EXPECT_EQ(fi_param_get_bool(&provider_, "flag", &flag), -FI_EINVAL);
  EXPECT_EQ(flag, 1) << "unchanged";
}

TEST_F(ParametersTest, DefineRefusesUnreadableParameters) {
  EXPECT_EQ(fi_param_define(&provider_, nullptr, FI_PARAM_INT, "h"), -FI_EINVAL);
  EXPECT_EQ(fi_param_define(&provider_, "", FI_PARAM_INT, "h"), -FI_EINVAL);
  EXPECT_EQ(fi_param_define(&provider_, "x", FI_PARAM_INT, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_param_define(&provider_, "x", static_cast<fi_param_type>(9), "h"), -FI_EINVAL);
}

TEST_F(ParametersTest, GetparamsListsDefinitionsOnceWithValues) {
  ASSERT_EQ(fi_param_define(&provider_, "num", FI_PARAM_INT, "help %d", 3), 0);
  ASSERT_EQ(fi_param_define(&provider_, "num", FI_PARAM_STRING, "later"), 0);
  set("FI_OFI_ZORK_NUM", "12");
  fi_param* params = nullptr;
  int count = 0;
  ASSERT_EQ(fi_getparams(&params, &count), 0);
  int found = 0;
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(params[i].name, "FI_OFI_ZORK_NUM") != 0) continue;
    ++found;
    EXPECT_EQ(params[i].type, FI_PARAM_INT);
    EXPECT_STREQ(params[i].help_string, "ofi_zork: help 3");
    EXPECT_STREQ(params[i].value, "12");
  }
  EXPECT_EQ(found, 1);
  EXPECT_EQ(params[count].name, nullptr);
  fi_freeparams(params);
  fi_freeparams(nullptr);
}

}  // namespace
}  // namespace weft::core
