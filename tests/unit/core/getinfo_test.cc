// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo as fi_getinfo(3) and fi_fabric(3) describe it, over providers made of lambdas.
#include <algorithm>
#include <atomic>
#include <thread>

#include "core/provider_hint.h"
#include "fake_provider.h"

namespace weft::core {
namespace {

using Tcp = Fake<0>;
using Udp = Fake<1>;
using Rxm = Fake<2>;
using Other = Fake<3>;

class GetInfoTest : public CoreTest {
 protected:
  // A layer like real ones: requests cores with the caller's hints, without its own name, and returns their infos.
  static void install_layer() {
    Rxm::install("ofi_rxm");
    Rxm::getinfo = [](uint32_t version, uint64_t flags, const fi_info* hints, fi_info** info) {
      const InfoPtr core_hints(hints == nullptr ? allocate_info() : duplicate_info(hints));
      fi_fabric_attr& fabric = *core_hints->fabric_attr;
      const std::string names = (fabric.prov_name == nullptr ? "" : std::string(fabric.prov_name) + ";") + "^ofi_rxm";
      std::free(fabric.prov_name);
      fabric.prov_name = ::strdup(names.c_str());
      return fi_getinfo(version, nullptr, nullptr, flags | kInternalCall | kCoresOnly, core_hints.get(), info);
    };
  }
  static void refuse(const fi_provider& provider, const char* why) { FI_INFO(&provider, FI_LOG_CORE, "%s\n", why); }
};

TEST_F(GetInfoTest, EntriesAreInOrderOfPreference) {
  Other::install("zork");
  Tcp::install("tcp");
  Udp::install("udp");
  install_layer();
  EXPECT_EQ(getinfo(), list({"udp;ofi_rxm", "tcp;ofi_rxm", "zork;ofi_rxm", "udp", "tcp", "zork"}));
}

TEST_F(GetInfoTest, OwnReliableDatagramsComeBeforeThoseOfALayer) {
  Tcp::install("tcp");
  Tcp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info** info) {
    *info = fi_allocinfo();
    (*info)->ep_attr->type = FI_EP_RDM;
    return 0;
  };
  Udp::install("udp");
  install_layer();
  EXPECT_EQ(getinfo(), list({"udp;ofi_rxm", "tcp", "tcp;ofi_rxm", "udp"}));
  EXPECT_EQ(getinfo_named("tcp"), list({"tcp", "tcp;ofi_rxm"}));
  fi_info* hints = fi_allocinfo();
  hints->caps = FI_ATOMIC;
  EXPECT_EQ(getinfo(hints), list({"udp;ofi_rxm", "tcp;ofi_rxm", "udp", "tcp"}));
  fi_freeinfo(hints);
}

TEST_F(GetInfoTest, NamesAndVersionsAreFilledIn) {
  Tcp::install("tcp", FI_VERSION(117, 3));
  fi_info* info = nullptr;
  ASSERT_EQ(fi_getinfo(FI_VERSION(1, 9), nullptr, nullptr, 0, nullptr, &info), 0);
  EXPECT_STREQ(info->fabric_attr->prov_name, "tcp");
  EXPECT_EQ(info->fabric_attr->prov_version, FI_VERSION(117u, 3u));
  EXPECT_EQ(info->fabric_attr->api_version, FI_VERSION(1u, 9u));
  fi_freeinfo(info);
}

TEST_F(GetInfoTest, InfoWithoutFabricAttributesIsCompleted) {
  Tcp::install("tcp");
  Tcp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info** info) {
    *info = static_cast<fi_info*>(std::calloc(1, sizeof(fi_info)));
    return 0;
  };
  EXPECT_EQ(getinfo(), list({"tcp"}));
}

TEST_F(GetInfoTest, HintsSelectProviders) {
  Tcp::install("tcp");
  Udp::install("udp");
  install_layer();
  EXPECT_EQ(getinfo_named("tcp"), list({"tcp;ofi_rxm", "tcp"}));
  EXPECT_EQ(getinfo_named("ofi_rxm"), list({"udp;ofi_rxm", "tcp;ofi_rxm"}));
  EXPECT_EQ(getinfo_named("tcp;ofi_rxm"), list({"tcp;ofi_rxm"}));
  EXPECT_EQ(getinfo_named("ofi_rxm;tcp"), list({"tcp;ofi_rxm"}));
  EXPECT_EQ(getinfo_named("^tcp"), list({"udp;ofi_rxm", "udp"}));
  EXPECT_EQ(getinfo_named("nosuch"), list({}));
  EXPECT_EQ(error(), -FI_ENODATA);
}

TEST_F(GetInfoTest, VariableIncludesAndExcludesProviders) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"tcp", list({"tcp;ofi_rxm", "tcp"})},
      {"UDP,tcp", list({"udp;ofi_rxm", "tcp;ofi_rxm", "udp", "tcp"})},
      {"tcp;ofi_rxm", list({"tcp;ofi_rxm"})},
      {"tcp;ofi_rxm,udp", list({"udp;ofi_rxm", "tcp;ofi_rxm", "udp"})},
      {"ofi_rxm", {}},
      {"^tcp", list({"udp;ofi_rxm", "udp"})},
      {"^ofi_rxm", list({"udp", "tcp"})},
      {"^tcp;ofi_rxm", list({"udp;ofi_rxm", "udp", "tcp"})},
      {"^", list({"udp;ofi_rxm", "tcp;ofi_rxm", "udp", "tcp"})},
      {"", {}},
  };
  for (const auto& [variable, expected] : cases) {
    SetUp();
    set("FI_PROVIDER", variable);
    Tcp::install("tcp");
    Udp::install("udp");
    install_layer();
    EXPECT_EQ(getinfo(), expected) << variable;
    EXPECT_EQ(error(), expected.empty() ? -FI_ENODATA : 0) << variable;
  }
}

TEST_F(GetInfoTest, ReasonsAreLoggedWhenNoProviderMatches) {
  Tcp::install("tcp");
  Tcp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info**) {
    refuse(Tcp::abi, "hints request FI_EP_DGRAM, tcp offers FI_EP_MSG");
    return -FI_ENODATA;
  };
  Udp::install("udp");
  Udp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info**) { return -FI_ENODATA; };
  Other::install("zork", FI_VERSION(1, 0), FI_VERSION(1, 5));
  record();
  EXPECT_TRUE(getinfo().empty());
  EXPECT_EQ(error(), -FI_ENODATA);
  EXPECT_TRUE(logged("no provider matches"));
  EXPECT_TRUE(logged("provider tcp: hints request FI_EP_DGRAM, tcp offers FI_EP_MSG"));
  EXPECT_TRUE(logged("provider udp: it returned -61 (No data available)"));
  EXPECT_TRUE(logged("provider zork: it implements API 1.5, older than the requested 2.6"));
  EXPECT_EQ(log().size(), 4u) << "one line each, and a heading";
}

TEST_F(GetInfoTest, NothingIsLoggedWhenAProviderMatches) {
  Tcp::install("tcp");
  Udp::install("udp");
  Udp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info**) { return -FI_ENODATA; };
  record();
  EXPECT_EQ(getinfo(), list({"tcp"}));
  EXPECT_TRUE(log().empty());
}

TEST_F(GetInfoTest, MissingAndExcludedProvidersAreLogged) {
  set("FI_PROVIDER", "^tcp");
  Tcp::install("tcp");
  Udp::install("udp");
  record();
  EXPECT_TRUE(getinfo_named("nosuch").empty());
  EXPECT_TRUE(logged("provider nosuch: no provider has this name"));
  EXPECT_TRUE(logged("provider tcp: excluded by FI_PROVIDER"));
  EXPECT_TRUE(logged("provider udp: the hints request provider nosuch"));
  EXPECT_TRUE(getinfo_named("tcp").empty());
  EXPECT_FALSE(logged("provider tcp: no provider has this name"));
}

TEST_F(GetInfoTest, LayerReportsTheReasonsOfItsCores) {
  Tcp::install("tcp");
  Tcp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info**) {
    refuse(Tcp::abi, "no interface is up");
    return -FI_ENODATA;
  };
  install_layer();
  record();
  EXPECT_TRUE(getinfo().empty());
  EXPECT_TRUE(std::ranges::any_of(log(), [](const std::string& line) {
    return line.find("provider ofi_rxm: ") != std::string::npos && line.find("no interface is up") != std::string::npos;
  }));
}

TEST_F(GetInfoTest, ReasonOfACoreIsNotRepeatedForTheLayer) {
  Other::install("verbs");
  Tcp::install("tcp");
  Other::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info**) {
    refuse(Other::abi, "no device is there");
    return -FI_ENODATA;
  };
  install_layer();
  record();
  EXPECT_TRUE(getinfo_named("verbs").empty());
  EXPECT_EQ(std::ranges::count_if(log(),
                                  [](const std::string& line) {
                                    return line.find("provider ") == 0 &&
                                           line.find("no device is there") != std::string::npos;
                                  }),
            1);
  EXPECT_TRUE(logged("provider ofi_rxm: no provider below it matches"));
}

TEST_F(GetInfoTest, AddressFormatFiltersTheAnswers) {
  Tcp::install("tcp");
  Tcp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info** info) {
    *info = fi_allocinfo();
    (*info)->addr_format = FI_SOCKADDR_IN;
    return 0;
  };
  Udp::install("udp");
  Udp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info** info) {
    *info = fi_allocinfo();
    (*info)->addr_format = FI_SOCKADDR_IN6;
    return 0;
  };
  record();
  set("FI_ADDR_FORMAT", "fi_sockaddr_in6");
  EXPECT_EQ(getinfo(), list({"udp"}));
  set("FI_ADDR_FORMAT", "FI_ADDR_STR");
  EXPECT_EQ(getinfo(), list({}));
  EXPECT_EQ(error(), -FI_ENODATA);
  EXPECT_TRUE(logged("FI_ADDR_FORMAT=FI_ADDR_STR leaves no provider"));
  set("FI_ADDR_FORMAT", "sockaddr");
  EXPECT_EQ(getinfo(), list({"udp", "tcp"}));
  EXPECT_TRUE(logged("FI_ADDR_FORMAT=sockaddr: no address format has this name"));
}

TEST_F(GetInfoTest, VersionsAndFlagsAreChecked) {
  Tcp::install("tcp");
  record();
  getinfo(nullptr, 0, FI_VERSION(2, 8));
  EXPECT_EQ(error(), -FI_ENOSYS);
  EXPECT_TRUE(logged("version 2.8 requested, this library has 2.7"));
  getinfo(nullptr, 1ull << 2);
  EXPECT_EQ(error(), -FI_EBADFLAGS);
  getinfo(nullptr, FI_SOURCE);
  EXPECT_EQ(error(), -FI_ENODATA);
  EXPECT_TRUE(logged("FI_SOURCE needs a node or a service"));
  EXPECT_EQ(fi_getinfo(FI_VERSION(2, 6), nullptr, nullptr, 0, nullptr, nullptr), -FI_EINVAL);
  fi_info* info = reinterpret_cast<fi_info*>(1);
  EXPECT_EQ(fi_getinfo(FI_VERSION(9, 0), nullptr, nullptr, 0, nullptr, &info), -FI_ENOSYS);
  EXPECT_EQ(info, nullptr);
}

TEST_F(GetInfoTest, FlagsArePassedToTheProvider) {
  Tcp::install("tcp");
  uint64_t seen = 0;
  Tcp::getinfo = [&](uint32_t, uint64_t flags, const fi_info*, fi_info** info) {
    seen = flags;
    *info = allocate_info();
    return 0;
  };
  constexpr uint64_t kFlags = FI_NUMERICHOST | FI_RESCAN | kInternalCall;
  getinfo(nullptr, kFlags);
  EXPECT_EQ(seen, kFlags);
}

TEST_F(GetInfoTest, ProviderAttributesOnlyListsNamesAndVersions) {
  set("FI_PROVIDER", "tcp");
  Tcp::install("tcp", FI_VERSION(2, 0));
  Udp::install("udp");
  Other::install("ofi_hook_zork");
  Other::abi.getinfo = nullptr;
  fi_info* info = nullptr;
  ASSERT_EQ(fi_getinfo(FI_VERSION(2, 6), nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &info), 0);
  std::vector<std::string> names;
  for (const fi_info* each = info; each != nullptr; each = each->next) names.push_back(each->fabric_attr->prov_name);
  EXPECT_EQ(names, list({"udp", "tcp", "ofi_hook_zork"})) << "all there are, whatever FI_PROVIDER says";
  EXPECT_EQ(info->next->fabric_attr->prov_version, FI_VERSION(2u, 0u));
  EXPECT_EQ(info->caps, 0u);
  EXPECT_NE(info->tx_attr, nullptr);
  fi_freeinfo(info);
}

TEST_F(GetInfoTest, OffloadProvidersServeOnlyOffloadRequests) {
  Tcp::install("tcp");
  Other::install("off_coll");
  EXPECT_EQ(getinfo(), list({"tcp"}));
  EXPECT_EQ(getinfo(nullptr, kOffloadsOnly), list({"off_coll"}));
}

// A plug-in built against 1.17 allocates 192 bytes of domain attributes; a copy by the application reads all current
// ones. The sanitizer reports missing bytes.
TEST_F(GetInfoTest, SmallerStructuresOfOldProvidersAreCompleted) {
  Tcp::install("tcp", FI_VERSION(1, 0), FI_VERSION(1, 17));
  Tcp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info** info) {
    *info = allocate_info();
    std::free((*info)->domain_attr);
    (*info)->domain_attr = static_cast<fi_domain_attr*>(std::malloc(192));
    std::memset((*info)->domain_attr, 0, 192);
    (*info)->domain_attr->mr_cnt = 9;
    return 0;
  };
  fi_info* info = nullptr;
  ASSERT_EQ(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, nullptr, &info), 0);
  EXPECT_EQ(info->domain_attr->mr_cnt, 9u);
  EXPECT_EQ(info->domain_attr->max_err_cntr_value, 0u);
  fi_info* copy = fi_dupinfo(info);
  fi_freeinfo(info);
  fi_freeinfo(copy);
}

// One of API 1.4 has no authorization keys and no NIC: what lies there, behind its structures, is neither read nor
// freed.
TEST_F(GetInfoTest, NothingBehindTheStructuresOfOldProvidersIsUsed) {
  static const auto old = []<class T>(T*& structure, std::size_t size) {
    structure = static_cast<T*>(std::malloc(sizeof(T)));
    std::memset(static_cast<void*>(structure), 0x5a, sizeof(T));
    std::memset(static_cast<void*>(structure), 0, size);
  };
  Tcp::install("tcp", FI_VERSION(1, 0), FI_VERSION(1, 4));
  Tcp::getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info** info) {
    old(*info, 112);
    old((*info)->tx_attr, 72);
    old((*info)->rx_attr, 64);
    old((*info)->ep_attr, 80);
    old((*info)->domain_attr, 120);
    old((*info)->fabric_attr, 28);
    (*info)->ep_attr->max_msg_size = 9;
    return 0;
  };
  fi_info* info = nullptr;
  ASSERT_EQ(fi_getinfo(FI_VERSION(1, 4), nullptr, nullptr, 0, nullptr, &info), 0);
  EXPECT_EQ(info->ep_attr->max_msg_size, 9u);
  EXPECT_EQ(info->ep_attr->auth_key, nullptr);
  EXPECT_EQ(info->domain_attr->auth_key, nullptr);
  EXPECT_EQ(info->tx_attr->tclass, 0u);
  EXPECT_EQ(info->nic, nullptr);
  fi_freeinfo(info);
}

TEST_F(GetInfoTest, ConcurrentFirstCallsAllSucceed) {
  Tcp::install("tcp");
  install_layer();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        fi_info* info = nullptr;
        if (fi_getinfo(FI_VERSION(2, 6), nullptr, nullptr, 0, nullptr, &info) != 0 || info->next == nullptr) ++wrong;
        fi_freeinfo(info);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(GetInfoTest, ProviderMayCallBackWhileProvidersLoad) {
  Tcp::install("tcp");
  Other::install("zork");
  static int during;
  builtins().push_back([]() -> fi_provider* {
    fi_info* info = nullptr;
    during = fi_getinfo(FI_VERSION(2, 6), nullptr, nullptr, 0, nullptr, &info);
    fi_freeinfo(info);
    return nullptr;
  });
  during = -1;
  EXPECT_EQ(getinfo(), list({"tcp", "zork"}));
  EXPECT_EQ(during, 0);
}

}  // namespace
}  // namespace weft::core
