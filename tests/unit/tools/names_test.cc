// SPDX-License-Identifier: BSD-2-Clause
// Names of capabilities, modes, endpoint types, address formats and errors, both ways.
#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "tools/names.h"

namespace weft::tools {
namespace {

TEST(FabricNames, FlagsByNameInAnyCase) {
  EXPECT_EQ(flag_named("FI_MSG", FI_TYPE_CAPS), FI_MSG);
  EXPECT_EQ(flag_named("fi_remote_read", FI_TYPE_CAPS), FI_REMOTE_READ);
  EXPECT_EQ(flag_named("rma", FI_TYPE_CAPS), FI_RMA);
  EXPECT_EQ(flag_named("FI_CONTEXT", FI_TYPE_MODE), FI_CONTEXT);
  EXPECT_EQ(flag_named("FI_BOGUS", FI_TYPE_CAPS), std::nullopt);
  EXPECT_EQ(flag_named("FI_", FI_TYPE_CAPS), std::nullopt);
  EXPECT_EQ(flag_named("", FI_TYPE_CAPS), std::nullopt);
}

TEST(FabricNames, ValuesByName) {
  EXPECT_EQ(value_named("FI_EP_MSG", FI_TYPE_EP_TYPE, "FI_EP_"), FI_EP_MSG);
  EXPECT_EQ(value_named("dgram", FI_TYPE_EP_TYPE, "FI_EP_"), FI_EP_DGRAM);
  EXPECT_EQ(value_named("FI_SOCKADDR_IN6", FI_TYPE_ADDR_FORMAT, "FI_"), FI_SOCKADDR_IN6);
  EXPECT_EQ(value_named("FI_FORMAT_UNSPEC", FI_TYPE_ADDR_FORMAT, "FI_"), FI_FORMAT_UNSPEC);
  EXPECT_EQ(value_named("FI_EP_BOGUS", FI_TYPE_EP_TYPE, "FI_EP_"), std::nullopt);
}

TEST(ErrorNames, AreSortedAndComplete) {
  int last = -1;
  for (const ErrorName& error : error_names()) {
    EXPECT_GT(error.number, last) << error.name;
    EXPECT_TRUE(error.name.starts_with("FI_"));
    last = error.number;
  }
  EXPECT_EQ(last, FI_ERRNO_MAX - 1);
  for (int number = FI_ERRNO_OFFSET; number < FI_ERRNO_MAX; ++number) {
    const auto is = [number](const ErrorName& error) { return error.number == number; };
    EXPECT_TRUE(std::any_of(error_names().begin(), error_names().end(), is)) << number;
  }
}

TEST(ErrorNames, ByNameInAnyCaseWithOrWithoutPrefix) {
  EXPECT_EQ(error_named("FI_EAGAIN")->number, EAGAIN);
  EXPECT_EQ(error_named("etoosmall")->number, FI_ETOOSMALL);
  EXPECT_EQ(error_named("FI_ENOSUCH"), nullptr);
  EXPECT_EQ(error_named(""), nullptr);
}

TEST(ErrorNames, NumbersOfEveryBaseAndSign) {
  EXPECT_EQ(error_number("11"), 11);
  EXPECT_EQ(error_number("-11"), 11);
  EXPECT_EQ(error_number("0x101"), FI_ETOOSMALL);
  EXPECT_EQ(error_number("-0X101"), FI_ETOOSMALL);
  EXPECT_EQ(error_number("013"), 11);
  EXPECT_EQ(error_number("0"), 0);
  for (const char* text : {"", "-", "0x", "08", "1a", "--1", "-+1", "4294967307"})
    EXPECT_EQ(error_number(text), std::nullopt) << text;
}

}  // namespace
}  // namespace weft::tools
