// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo: hints of every kind, node and service, flags, the FI_PROVIDER filter, and what is said when nothing
// matches; fi_getinfo(3), fi_provider(7).
#include "fixture/address.h"
#include "fixture/child.h"
#include "fixture/fabric.h"

namespace getinfo {

CONFORMANCE_TOPIC(Getinfo);

namespace {

struct Answer {
  int rc;
  InfoPtr list;
};

Answer ask(const fi_info* hints, const char* node = nullptr, const char* service = nullptr, uint64_t flags = 0) {
  fi_info* list = reinterpret_cast<fi_info*>(8);  // must be set to null when nothing matches
  const int rc = fi_getinfo(static_cast<int>(api_version()), node, service, flags, hints, &list);
  return {rc, InfoPtr(list)};
}

// Hints for the target, changed by `edit`; expects that every answer satisfies `check`.
template <class Check>
void expect_all(const Target& target, const HintsEditor& edit, Check check) {
  const InfoPtr hints = hints_for(target, edit);
  const Answer answer = ask(hints.get(), target.address.c_str(), nullptr, FI_SOURCE);
  ASSERT_EQ(answer.rc, 0);
  for (const fi_info* info = answer.list.get(); info; info = info->next) check(*info);
}

void expect_nothing(const Target& target, const HintsEditor& edit) {
  const InfoPtr hints = hints_for(target, edit);
  const Answer answer = ask(hints.get());
  EXPECT_EQ(answer.rc, -FI_ENODATA);
  EXPECT_EQ(answer.list, nullptr);
}

}  // namespace

TEST_P(Getinfo, AnswersWithoutAnyInput) {
  const Answer answer = ask(nullptr);
  ASSERT_EQ(answer.rc, 0);
  bool found = false;
  for (const fi_info* info = answer.list.get(); info; info = info->next) {
    ASSERT_TRUE(info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr);
    EXPECT_NE(info->caps, 0u);
    ASSERT_TRUE(info->fabric_attr->prov_name && info->fabric_attr->name && info->domain_attr->name);
    EXPECT_EQ(info->fabric_attr->api_version, api_version());
    found = found || info->fabric_attr->prov_name == target().provider;
  }
  EXPECT_TRUE(found) << target().provider;
}

TEST_P(Getinfo, OnlyTheHintedKindIsReturned) {
  expect_all(target(), {}, [&](const fi_info& info) {
    EXPECT_EQ(info.ep_attr->type, target().ep_type);
    EXPECT_EQ(info.addr_format, target().addr_format);
    EXPECT_EQ(info.fabric_attr->prov_name, target().provider);
  });
}

TEST_P(Getinfo, RequestedCapabilitiesAreGranted) {
  for (uint64_t caps : std::initializer_list<uint64_t>{FI_MSG, FI_MSG | FI_SEND, FI_MSG | FI_SEND | FI_RECV})
    expect_all(
        target(), [&](fi_info& hints) { hints.caps = caps; },
        [&](const fi_info& info) { EXPECT_EQ(info.caps & caps, caps); });
}

TEST_P(Getinfo, CapabilitiesNobodyHasGiveNoData) {
  expect_nothing(target(), [](fi_info& hints) { hints.caps = FI_MSG | FI_HMEM | FI_COLLECTIVE; });
}

TEST_P(Getinfo, ModeBitsTheApplicationLacksAreNotRequired) {
  expect_all(
      target(), [](fi_info& hints) { hints.mode = ~0ull; }, [](const fi_info&) {});
  const InfoPtr hints = hints_for(target(), [](fi_info& h) { h.mode = 0; });
  const Answer answer = ask(hints.get());
  for (const fi_info* info = answer.list.get(); info; info = info->next) EXPECT_EQ(info->mode, 0u);
}

TEST_P(Getinfo, AttributesAreAtLeastWhatWasAskedFor) {
  const size_t data_size = Fabric::offers(target(), with_remote_data) ? 4 : 0;
  expect_all(
      target(),
      [&](fi_info& hints) {
        hints.tx_attr->size = 64;
        hints.rx_attr->size = 64;
        hints.tx_attr->iov_limit = 2;
        hints.tx_attr->inject_size = 16;
        hints.ep_attr->max_msg_size = 1024;
        hints.domain_attr->cq_data_size = data_size;
      },
      [&](const fi_info& info) {
        EXPECT_GE(info.tx_attr->size, 64u);
        EXPECT_GE(info.rx_attr->size, 64u);
        EXPECT_GE(info.tx_attr->iov_limit, 2u);
        EXPECT_GE(info.tx_attr->inject_size, 16u);
        EXPECT_GE(info.ep_attr->max_msg_size, 1024u);
        EXPECT_GE(info.domain_attr->cq_data_size, data_size);
      });
}

TEST_P(Getinfo, ImpossibleAttributesGiveNoData) {
  expect_nothing(target(), [](fi_info& hints) { hints.tx_attr->iov_limit = 1 << 20; });
  expect_nothing(target(), [](fi_info& hints) { hints.tx_attr->inject_size = size_t{1} << 40; });
  expect_nothing(target(), [](fi_info& hints) { hints.ep_attr->protocol = 0x7fff0000; });
  expect_nothing(target(), [](fi_info& hints) { hints.domain_attr->name = strdup("no such domain"); });
  expect_nothing(target(), [](fi_info& hints) { hints.fabric_attr->name = strdup("no such fabric"); });
  expect_nothing(target(), [](fi_info& hints) {
    free(hints.fabric_attr->prov_name);
    hints.fabric_attr->prov_name = strdup("no_such_provider");
  });
}

TEST_P(Getinfo, OrderingThatWasAskedForIsGranted) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams have no order";
  expect_all(
      target(), [](fi_info& hints) { hints.tx_attr->msg_order = hints.rx_attr->msg_order = FI_ORDER_SAS; },
      [](const fi_info& info) {
        EXPECT_TRUE(info.tx_attr->msg_order & FI_ORDER_SAS);
        EXPECT_TRUE(info.rx_attr->msg_order & FI_ORDER_SAS);
      });
}

TEST_P(Getinfo, EveryThreadingModelOfOldAndNewProgramsIsGranted) {
  for (fi_threading model : {FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT})
    EXPECT_TRUE(Fabric::offers(target(), [&](fi_info& hints) { hints.domain_attr->threading = model; })) << model;
}

TEST_P(Getinfo, NamesOfAnAnswerSelectIt) {
  Fabric fabric(target());
  const fi_info* first = fabric.info();
  expect_all(
      target(),
      [&](fi_info& hints) {
        hints.domain_attr->name = strdup(first->domain_attr->name);
        hints.fabric_attr->name = strdup(first->fabric_attr->name);
      },
      [&](const fi_info& info) {
        EXPECT_STREQ(info.domain_attr->name, first->domain_attr->name);
        EXPECT_STREQ(info.fabric_attr->name, first->fabric_attr->name);
      });
}

TEST_P(Getinfo, AnswerIsAGoodHint) {
  Fabric fabric(target());
  const Answer again = ask(fabric.info());
  ASSERT_EQ(again.rc, 0);
  EXPECT_EQ(again.list->ep_attr->type, fabric.info()->ep_attr->type);
}

TEST_P(Getinfo, NodeAndServiceBecomeTheDestination) {
  const InfoPtr hints = hints_for(target());
  const Answer answer = ask(hints.get(), target().address.c_str(), "7471");
  ASSERT_EQ(answer.rc, 0);
  EXPECT_EQ(Address::copied(answer.list->dest_addr, answer.list->dest_addrlen),
            Address::numeric(target().address, 7471));
}

TEST_P(Getinfo, SourceFlagMakesThemTheSource) {
  const InfoPtr hints = hints_for(target());
  const Answer answer = ask(hints.get(), target().address.c_str(), "7471", FI_SOURCE);
  ASSERT_EQ(answer.rc, 0);
  EXPECT_EQ(Address::copied(answer.list->src_addr, answer.list->src_addrlen), Address::numeric(target().address, 7471));
  EXPECT_EQ(answer.list->dest_addr, nullptr);
}

TEST_P(Getinfo, DestinationOfTheHintsIsUsedWithoutANode) {
  const Address wanted = Address::numeric(target().address, 1717);
  const InfoPtr hints = hints_for(target(), [&](fi_info& h) {
    h.dest_addr = malloc(wanted.size);
    std::memcpy(h.dest_addr, wanted.get(), wanted.size);
    h.dest_addrlen = wanted.size;
  });
  const Answer answer = ask(hints.get());
  ASSERT_EQ(answer.rc, 0);
  EXPECT_EQ(Address::copied(answer.list->dest_addr, answer.list->dest_addrlen), wanted);
}

TEST_P(Getinfo, NumericHostRefusesNames) {
  const InfoPtr hints = hints_for(target());
  EXPECT_EQ(ask(hints.get(), target().address.c_str(), "1", FI_NUMERICHOST).rc, 0);
  EXPECT_NE(ask(hints.get(), "localhost", "1", FI_NUMERICHOST).rc, 0);
}

TEST_P(Getinfo, ProviderAttributesOnly) {
  const Answer answer = ask(nullptr, nullptr, nullptr, FI_PROV_ATTR_ONLY);
  ASSERT_EQ(answer.rc, 0);
  bool found = false;
  const std::string one = target().provider.substr(target().provider.rfind(';') + 1);  // a layer is listed by itself
  for (const fi_info* info = answer.list.get(); info; info = info->next) {
    ASSERT_TRUE(info->fabric_attr && info->fabric_attr->prov_name);
    EXPECT_NE(info->fabric_attr->prov_version, 0u);
    found = found || info->fabric_attr->prov_name == one;
  }
  EXPECT_TRUE(found);
}

TEST_P(Getinfo, NewerInterfaceThanTheLibraryIsRefused) {
  fi_info* list = nullptr;
  EXPECT_EQ(fi_getinfo(FI_VERSION(99, 0), nullptr, nullptr, 0, nullptr, &list), -FI_ENOSYS);
  EXPECT_EQ(list, nullptr);
}

TEST_P(Getinfo, OldInterfaceLevelsAreServed) {
  const int needed = Fabric(target()).info()->domain_attr->mr_mode;  // bits that 1.5 knew already, or none
  const InfoPtr hints = hints_for(target(), [&](fi_info& h) { h.domain_attr->mr_mode = needed; });
  for (int minor : {5, 9, 15}) {
    fi_info* list = nullptr;
    ASSERT_EQ(fi_getinfo(FI_VERSION(1, minor), nullptr, nullptr, 0, hints.get(), &list), 0) << "1." << minor;
    EXPECT_EQ(list->fabric_attr->api_version, FI_VERSION(1, minor));
    fi_freeinfo(list);
  }
}

TEST_P(Getinfo, PassiveEndpointHandleIsCopied) {
  if (!target().connected()) GTEST_SKIP() << "passive endpoints are connection-oriented";
  Fabric fabric(target());
  const auto pep = opened<fid_pep>(
      "fi_passive_ep", [&](fid_pep** p) { return fi_passive_ep(fabric.fabric(), fabric.info(), p, nullptr); });
  const InfoPtr hints = hints_for(target(), [&](fi_info& h) { h.handle = &pep->fid; });
  const Answer answer = ask(hints.get());
  ASSERT_EQ(answer.rc, 0);
  EXPECT_EQ(answer.list->handle, &pep->fid);
}

TEST_P(Getinfo, ProviderFilterIncludesAndExcludes) {
  const std::string core = target().provider.substr(0, target().provider.find(';'));
  const auto listed = [](const std::string& filter) {
    int status = -1;
    const std::string text = child::output_of("list_providers", {{"FI_PROVIDER", filter}}, &status);
    EXPECT_EQ(status, 0) << text;
    return "\n" + text;
  };
  EXPECT_NE(listed(core).find("\n" + core), std::string::npos);
  EXPECT_EQ(listed("^" + core).find("\n" + core + "\n"), std::string::npos);
  EXPECT_EQ(listed("no_such_provider").find("\n" + core + "\n"), std::string::npos);
  std::string upper = core;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_NE(listed(upper).find("\n" + core), std::string::npos) << "names are compared without case";
}

TEST_P(Getinfo, ReasonIsLoggedWhenNothingMatches) {
  int status = -1;
  const std::string text = child::output_of("ask_in_vain", {{"FI_LOG_LEVEL", "warn"}}, &status);
  EXPECT_EQ(status, 0);
  EXPECT_NE(text.find(std::to_string(-FI_ENODATA)), std::string::npos) << text;
  EXPECT_NE(text.find("libfabric:"), std::string::npos) << "the log is empty: " << text;
  EXPECT_NE(text.find("protocol"), std::string::npos) << "does not name the mismatch: " << text;
}

}  // namespace getinfo
