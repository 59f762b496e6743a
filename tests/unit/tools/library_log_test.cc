// SPDX-License-Identifier: BSD-2-Clause
// A tool prints the reasons that the library logs for a failed fi_getinfo.
#include "tools/library_log.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <string>

#include "tools/fabric_query.h"

namespace weft::tools {
namespace {

TEST(LibraryLog, FailurePrintsTheReasons) {
  for (const char* setting : {"FI_LOG_LEVEL", "FI_LOG_PROV", "FI_LOG_SUBSYS"}) unsetenv(setting);
  catch_library_log();
  InfoPtr hints(fi_allocinfo());
  ASSERT_TRUE(hints);
  set_string(hints->fabric_attr->prov_name, "nosuch");
  fi_info* list = nullptr;
  const int error = fi_getinfo(api_version(), nullptr, nullptr, 0, hints.get(), &list);
  ASSERT_EQ(error, -FI_ENODATA);
  testing::internal::CaptureStderr();
  print_getinfo_failure(error);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.substr(0, text.find('\n')), "fi_getinfo: -61 (No data available)");
  EXPECT_NE(text.find("nosuch"), std::string::npos) << text;

  testing::internal::CaptureStderr();
  print_getinfo_failure(error);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("nosuch"), std::string::npos) << "each reason is told once";
}

}  // namespace
}  // namespace weft::tools
