// SPDX-License-Identifier: BSD-2-Clause
// The providers, their order, and the choice between two of one name; fabric(7).
#include "core/registry.h"

#include <rdma/providers/fi_prov.h>

#include "fake_provider.h"

namespace weft::core {
namespace {

class RegistryTest : public CoreTest {
 protected:
  static std::vector<std::string> visible() {
    EXPECT_TRUE(state().registry.load().ok());
    std::vector<std::string> names;
    for (const Provider* provider : state().registry.providers()) {
      if (!provider->hidden) names.emplace_back(provider->abi->name);
    }
    return names;
  }
};

TEST_F(RegistryTest, KindFollowsFromNameAndSlots) {
  fi_provider provider{};
  provider.getinfo = [](uint32_t, const char*, const char*, uint64_t, const fi_info*, fi_info**) { return 0; };
  const std::pair<const char*, ProviderKind> cases[] = {
      {"tcp", ProviderKind::kCore},         {"ofi_rxm", ProviderKind::kUtility}, {"OFI_x", ProviderKind::kUtility},
      {"off_coll", ProviderKind::kOffload}, {"lnx", ProviderKind::kUtility},     {"ofi", ProviderKind::kCore}};
  for (const auto& [name, kind] : cases) {
    provider.name = name;
    EXPECT_EQ(kind_of(provider), kind) << name;
  }
  provider.getinfo = nullptr;
  EXPECT_EQ(kind_of(provider), ProviderKind::kHook);
}

TEST_F(RegistryTest, KnownNamesPrecedeOthers) {
  Fake<0>::install("zork");
  Fake<1>::install("tcp");
  Fake<2>::install("alpha");
  Fake<3>::install("verbs");
  EXPECT_EQ(visible(), list({"verbs", "tcp", "zork", "alpha"}));
}

TEST_F(RegistryTest, HigherVersionOfANameWins) {
  Fake<0>::install("tcp", FI_VERSION(1, 5));
  Fake<1>::install("TCP", FI_VERSION(1, 6));
  Fake<2>::install("tcp", FI_VERSION(1, 4));
  EXPECT_EQ(visible(), list({"TCP"}));
  EXPECT_EQ(state().registry.find("tcp")->abi, &Fake<1>::abi);
}

TEST_F(RegistryTest, FirstOfEqualVersionsWins) {
  Fake<0>::install("tcp");
  Fake<1>::install("tcp");
  visible();
  EXPECT_EQ(state().registry.find("tcp")->abi, &Fake<0>::abi);
}

TEST_F(RegistryTest, AtSignPrefersTheFirstOfAName) {
  set("FI_PROVIDER_PATH", "@");
  Fake<0>::install("tcp", FI_VERSION(1, 0));
  Fake<1>::install("tcp", FI_VERSION(9, 0));
  visible();
  EXPECT_EQ(state().registry.find("tcp")->abi, &Fake<0>::abi);
}

TEST_F(RegistryTest, RepeatedProviderIsRegisteredOnce) {
  Fake<0>::install("tcp");
  builtins().push_back(Fake<0>::entry);
  EXPECT_EQ(visible(), list({"tcp"}));
  unload();
  EXPECT_EQ(Fake<0>::cleanups, 1);
}

TEST_F(RegistryTest, UnusableProvidersAreRefused) {
  Fake<0>::install("tcp", FI_VERSION(1, 0), FI_VERSION(1, 2));
  Fake<1>::install("nofabric");
  Fake<1>::abi.fabric = nullptr;
  Fake<2>::install(nullptr);
  builtins().push_back([]() -> fi_provider* { return nullptr; });
  record();
  EXPECT_EQ(visible(), list({}));
  EXPECT_TRUE(logged("provider tcp refused (built in): it implements API 1.2"));
  EXPECT_TRUE(logged("provider refused (built in): no name or no fabric call"));
}

TEST_F(RegistryTest, EveryProviderCleansUpOnceAtUnload) {
  set("FI_PROVIDER", "^udp");
  Fake<0>::install("tcp");
  Fake<1>::install("udp");
  visible();
  EXPECT_EQ(Fake<0>::cleanups, 0);
  unload();
  EXPECT_EQ(Fake<0>::cleanups, 1);
  EXPECT_EQ(Fake<1>::cleanups, 1) << "excluded, but it was initialised";
}

TEST_F(RegistryTest, UnknownNamesInTheVariableAreLogged) {
  set("FI_PROVIDER", "tpc,tcp;ofi_rmx");
  Fake<0>::install("tcp");
  record();
  visible();
  EXPECT_TRUE(logged("FI_PROVIDER names tpc"));
  EXPECT_TRUE(logged("FI_PROVIDER names ofi_rmx"));
  EXPECT_EQ(log().size(), 2u);
}

TEST_F(RegistryTest, VariablesWithoutEffectAreLoggedOnce) {
  set("FI_MR_CACHE_MAX_COUNT", "0");
  set("FI_MR_CUDA_CACHE_MONITOR_ENABLED", "1");
  set("FI_OFI_RXM_MSG_TX_SIZE", "128");
  set("FI_TCP_NODELAY", "yes");
  set("FI_TCP_ZEROCOPY_SIZE", "1");
  set("FI_OF_SOMEBODY_ELSE", "1");
  Fake<0>::install("tcp");
  static const auto define = [] { fi_param_define(&Fake<0>::abi, "nodelay", FI_PARAM_BOOL, "help"); };
  define();
  record();
  getinfo();
  getinfo();
  EXPECT_EQ(log(), std::vector<std::string>{"variables without effect, no loaded provider defines them: "
                                            "FI_MR_CACHE_MAX_COUNT, FI_MR_CUDA_CACHE_MONITOR_ENABLED, "
                                            "FI_OFI_RXM_MSG_TX_SIZE, FI_TCP_ZEROCOPY_SIZE\n"});
}

}  // namespace
}  // namespace weft::core
