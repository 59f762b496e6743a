// SPDX-License-Identifier: BSD-2-Clause
// Lists of names: splitting, trimming, the "a,b" and "^a,b" filters.
#include "core/name_list.h"

#include <gtest/gtest.h>

#include <clocale>

namespace weft::core {
namespace {

TEST(NameList, SplitKeepsEmptyPieces) {
  EXPECT_EQ(split("", ';').size(), 1u);
  EXPECT_EQ(split("a;;b;", ';'), (std::vector<std::string_view>{"a", "", "b", ""}));
}

TEST(NameList, TrimRemovesBlanksAtBothEnds) {
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

struct FilterCase {
  const char* list;
  const char* name;
  bool allowed;
};

// As libfabric does with the variable, except that blanks around names are ignored here.
// In the Turkish locale toupper(3) and strcasecmp(3) know no pair of "i" and "I".
TEST(NameList, CaseDoesNotDependOnTheLocale) {
  static_assert(upper_case('i') == 'I' && upper_case('z') == 'Z' && upper_case('I') == 'I' && upper_case('_') == '_');
  const char* const turkish = std::setlocale(LC_ALL, "tr_TR.UTF-8");
  EXPECT_TRUE(equal_ignoring_case("ofi_rxm", "OFI_RXM"));
  EXPECT_FALSE(equal_ignoring_case("ofi_rxm", "OFI_RXN"));
  if (turkish != nullptr) std::setlocale(LC_ALL, "C");
}

TEST(NameList, FilterAllowsListedNames) {
  const FilterCase cases[] = {
      {nullptr, "tcp", true},
      {"", "tcp", false},
      {"^", "tcp", true},
      {"tcp", "tcp", true},
      {"TCP", "tcp", true},
      {"tcp", "tcp;ofi_rxm", true},
      {"tcp", "tcpx", false},
      {"tcp", "udp", false},
      {"udp, tcp", "tcp", true},
      {"tcp;ofi_rxm", "tcp", false},
      {"tcp;ofi_rxm", "tcp;ofi_rxm", true},
      {"tcp;ofi_rxm", "tcp;ofi_rxd", false},
      {"^tcp", "tcp", false},
      {"^tcp", "tcp;ofi_rxm", false},
      {"^tcp", "udp", true},
      {"^udp,tcp", "tcp", false},
      {"^tcp;ofi_rxm", "tcp", true},
      {"^tcp;ofi_rxm", "tcp;ofi_rxm", false},
      {"tcp;", "tcp", false},
  };
  for (const FilterCase& each : cases) {
    EXPECT_EQ(NameFilter(each.list).allows(each.name), each.allowed)
        << (each.list == nullptr ? "(unset)" : each.list) << " / " << each.name;
  }
}

TEST(NameList, FilterKeepsTheCoreOfAListedPair) {
  EXPECT_TRUE(NameFilter("tcp;ofi_rxm").may_need("tcp"));
  EXPECT_FALSE(NameFilter("tcp;ofi_rxm").may_need("udp"));
  EXPECT_FALSE(NameFilter("ofi_rxm;tcp").may_need("tcp"));
  EXPECT_TRUE(NameFilter("^tcp;ofi_rxm").may_need("tcp"));
  EXPECT_FALSE(NameFilter("^tcp").may_need("tcp"));
}

}  // namespace
}  // namespace weft::core
