// SPDX-License-Identifier: BSD-2-Clause
// fi_fabric: the choice of the provider and its arguments; fi_fabric(3).
#include "fake_provider.h"

namespace weft::core {
namespace {

using Tcp = Fake<0>;
using Rxm = Fake<2>;
using Hook = Fake<4>;

class FabricTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    Tcp::install("tcp");
    Rxm::install("ofi_rxm");
  }

  int open(const char* prov_name, const char* name = "net") {
    attr_.prov_name = const_cast<char*>(prov_name);
    attr_.name = const_cast<char*>(name);
    attr_.api_version = FI_VERSION(1, 9);
    fabric_ = nullptr;
    return fi_fabric(&attr_, &fabric_, nullptr);
  }

  fi_fabric_attr attr_{};
  fid_fabric* fabric_ = nullptr;
};

TEST_F(FabricTest, LastNameOfTheListOpensTheFabric) {
  ASSERT_EQ(open("tcp"), 0);
  EXPECT_EQ(fabric_, &Tcp::fabric);
  EXPECT_EQ(fabric_->api_version, FI_VERSION(1u, 9u));
  ASSERT_EQ(open("tcp;ofi_rxm"), 0);
  EXPECT_EQ(fabric_, &Rxm::fabric);
  ASSERT_EQ(open("TCP"), 0);
}

TEST_F(FabricTest, OldProviderGetsNoApiVersion) {
  Tcp::abi.fi_version = FI_VERSION(1, 4);
  ASSERT_EQ(open("tcp"), 0);
  EXPECT_EQ(fabric_->api_version, 0u);
}

TEST_F(FabricTest, InvalidArgumentsAreRefused) {
  EXPECT_EQ(open("nosuch"), -FI_ENODEV);
  EXPECT_EQ(open(nullptr), -FI_EINVAL);
  EXPECT_EQ(open("tcp", nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_fabric(nullptr, &fabric_, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_fabric2(nullptr, &fabric_, 0, nullptr), -FI_EINVAL);
  fi_info info{};
  EXPECT_EQ(fi_fabric2(&info, &fabric_, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fabric_, nullptr);
}

TEST_F(FabricTest, Fabric2TakesAnInfoAndNoFlags) {
  fi_fabric_attr attr{};
  attr.prov_name = const_cast<char*>("tcp");
  attr.name = const_cast<char*>("net");
  fi_info info{};
  info.fabric_attr = &attr;
  EXPECT_EQ(fi_fabric2(&info, &fabric_, 1, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_fabric2(&info, &fabric_, 0, nullptr), 0);
  EXPECT_EQ(fabric_, &Tcp::fabric);
}

TEST_F(FabricTest, ExcludedProviderDoesNotOpen) {
  set("FI_PROVIDER", "^tcp");
  EXPECT_EQ(open("tcp"), -FI_ENODEV);
}

TEST_F(FabricTest, FailureOfTheProviderIsReturned) {
  Tcp::abi.fabric = [](fi_fabric_attr*, fid_fabric**, void*) { return -FI_ENOMEM; };
  EXPECT_EQ(open("tcp"), -FI_ENOMEM);
  EXPECT_EQ(fabric_, nullptr);
}

TEST_F(FabricTest, UnknownHookIsLoggedAndSkipped) {
  set("FI_HOOK", "perf;tcp");
  record();
  ASSERT_EQ(open("tcp"), 0);
  EXPECT_EQ(fabric_, &Tcp::fabric);
  EXPECT_TRUE(logged("FI_HOOK: perf does not exist"));
  EXPECT_TRUE(logged("FI_HOOK: tcp is not a hook"));
}

TEST_F(FabricTest, HookWrapsTheFabric) {
  set("FI_HOOK", "zork");
  static fid_fabric* wrapped;
  Hook::install("ofi_hook_zork");
  Hook::abi.getinfo = nullptr;
  Hook::abi.fabric = [](fi_fabric_attr* attr, fid_fabric** out, void*) {
    wrapped = attr->fabric;
    *out = &Hook::fabric;
    return 0;
  };
  ASSERT_EQ(open("tcp"), 0);
  EXPECT_EQ(fabric_, &Hook::fabric);
  EXPECT_EQ(wrapped, &Tcp::fabric);
  EXPECT_EQ(fabric_->api_version, FI_VERSION(1u, 9u));
}

TEST_F(FabricTest, FailingHookIsSkipped) {
  set("FI_HOOK", "zork");
  Hook::install("ofi_hook_zork");
  Hook::abi.getinfo = nullptr;
  Hook::abi.fabric = [](fi_fabric_attr*, fid_fabric**, void*) { return -FI_ENOSYS; };
  record();
  ASSERT_EQ(open("tcp"), 0);
  EXPECT_EQ(fabric_, &Tcp::fabric);
  EXPECT_TRUE(logged("FI_HOOK: zork failed"));
}

}  // namespace
}  // namespace weft::core
