// SPDX-License-Identifier: BSD-2-Clause
// The lines of libfabric.conf that count and those that are skipped; fabric(7).
#include "core/parameters.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace weft::core {
namespace {

TEST(ConfigFile, ReadsNamesAndValues) {
  const ConfigFile file(
      "# FI_A=commented out\n"
      "FI_B=1\n"
      "  FI_C = two words \r\n"
      "no equals sign\n"
      "FI_D=a=b\n"
      "FI_B=2\n"
      "FI_E=");
  EXPECT_EQ(file.find("FI_A"), nullptr);
  EXPECT_STREQ(file.find("FI_B"), "2");
  EXPECT_STREQ(file.find("FI_C"), "two words");
  EXPECT_STREQ(file.find("FI_D"), "a=b");
  EXPECT_STREQ(file.find("FI_E"), "");
}

TEST(ConfigFile, NamesLinesThatItIgnores) {
  const ConfigFile file("FI_A=1\n# comment\n\nFI_B 2\n");
  EXPECT_EQ(file.complaints(), std::vector<std::string>{"line 4 is not NAME=value and is ignored"});
  EXPECT_EQ(ConfigFile(std::string(1000, 'x') + std::string(1000, '\n')).complaints().size(), 1u);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "x\n";
  EXPECT_EQ(ConfigFile(many).complaints().size(), 8u);
}

TEST(ConfigFile, NamesAFileThatCannotBeRead) {
  EXPECT_TRUE(ConfigFile::read("/nonexistent/libfabric.conf").complaints().empty());
  ASSERT_EQ(ConfigFile::read("/").complaints().size(), 1u);
  EXPECT_EQ(ConfigFile::read("/").complaints()[0], "the file cannot be read: Is a directory");
}

TEST(ConfigFile, AbsentFileIsEmpty) {
  EXPECT_EQ(ConfigFile::read("/nonexistent/libfabric.conf").find("FI_A"), nullptr);
  EXPECT_EQ(ConfigFile::read("/").find("FI_A"), nullptr);
}

TEST(ConfigFile, ReadsAFile) {
  const std::string path = testing::TempDir() + "weft_config_file_test.conf";
  std::ofstream(path) << "FI_A=from file\n";
  EXPECT_STREQ(ConfigFile::read(path.c_str()).find("FI_A"), "from file");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace weft::core
