// SPDX-License-Identifier: BSD-2-Clause
// The tools' command lines: accepted forms, exit codes of refused ones, and the help text.
#include "tools/command_line.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace weft::tools {
namespace {

class CommandLineTest : public testing::Test {
 protected:
  CommandLine::Parsed parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "tool");
    arguments.push_back(nullptr);
    return line_.parse(static_cast<int>(arguments.size() - 1), const_cast<char**>(arguments.data()));
  }

  bool verbose_ = false;
  bool json_ = false;
  const char* name_ = nullptr;
  uint64_t number_ = 0;
  CommandLine line_{"Usage: tool\n",
                    {{'v', "verbose", nullptr, "say more", set_flag(verbose_)},
                     {'n', "name", "NAME", "a name", set_text(name_)},
                     {'I', nullptr, "N", "a number", set_number(number_, 1, 100)},
                     {0, "json", nullptr, "first line\nsecond line", set_flag(json_)}},
                    3};
};

TEST_F(CommandLineTest, ClustersAbbreviationsAndOperandsAnywhere) {
  const CommandLine::Parsed parsed = parse({"first", "-vI7", "--na=x", "second", "--json", "--", "-v"});
  EXPECT_LT(parsed.exit_code, 0);
  EXPECT_TRUE(verbose_);
  EXPECT_TRUE(json_);
  EXPECT_STREQ(name_, "x");
  EXPECT_EQ(number_, 7u);
  ASSERT_EQ(parsed.operands.size(), 3u);
  EXPECT_STREQ(parsed.operands[0], "first");
  EXPECT_STREQ(parsed.operands[2], "-v");
}

TEST_F(CommandLineTest, ParseCanRunTwice) {
  EXPECT_LT(parse({"-I", "5"}).exit_code, 0);
  EXPECT_LT(parse({"-I", "6"}).exit_code, 0);
  EXPECT_EQ(number_, 6u);
}

TEST_F(CommandLineTest, InvalidNumbersAreRefused) {
  for (const char* text : {"0", "101", "-1", "7x", "", "0x10", "99999999999999999999"})
    EXPECT_EQ(parse({"-I", text}).exit_code, EINVAL) << text;
  EXPECT_EQ(number_, 0u);
}

TEST_F(CommandLineTest, UnknownOptionsAndMissingArgumentsAreRefused) {
  EXPECT_EQ(parse({"-z"}).exit_code, 1);
  EXPECT_EQ(parse({"--nosuch"}).exit_code, 1);
  EXPECT_EQ(parse({"-n"}).exit_code, 1);
}

TEST_F(CommandLineTest, HelpListsEveryOption) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"-h"}).exit_code, 3) << "the given exit code";
  EXPECT_EQ(testing::internal::GetCapturedStdout(), line_.help());
  EXPECT_EQ(line_.help(),
            "Usage: tool\n\n"
            "Options:\n"
            "  -v, --verbose           say more\n"
            "  -n, --name=NAME         a name\n"
            "  -I N                    a number\n"
            "      --json              first line\n"
            "                          second line\n"
            "  -h, --help              show this help and exit\n");
}

}  // namespace
}  // namespace weft::tools
