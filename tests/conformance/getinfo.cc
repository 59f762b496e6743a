// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo: hints of every kind, node and service, flags, the FI_PROVIDER filter, and the log when nothing matches;
// fi_getinfo(3), fi_provider(7).
#include <unistd.h>

#include "fixture/address.h"
#include "fixture/child.h"
#include "fixture/fabric.h"
#include "fixture/no_descriptors.h"

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

// Hints for the target, changed by `edit`; expects that every answer of its provider satisfies `check`. Others are
// those of layers over it.
template <class Check>
void expect_all(const Target& target, const HintsEditor& edit, Check check) {
  const InfoPtr hints = hints_for(target, edit);
  const Answer answer = ask(hints.get(), target.address.c_str(), nullptr, FI_SOURCE);
  ASSERT_EQ(answer.rc, 0);
  unsigned own = 0;
  for (const fi_info* info = answer.list.get(); info; info = info->next) {
    const std::string name = info->fabric_attr->prov_name;
    if (name != target.provider) {
      EXPECT_EQ(name.find(target.provider + ";"), 0u) << name;
      continue;
    }
    check(*info);
    ++own;
  }
  EXPECT_NE(own, 0u);
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

// fi_endpoint(3) lists the capabilities of each direction; hints may name others there.
TEST_P(Getinfo, DirectionsHaveOnlyTheirOwnCapabilities) {
  constexpr uint64_t kTransmit = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND | FI_HMEM |
                                 FI_TRIGGER | FI_FENCE | FI_MULTICAST | FI_RMA_PMEM | FI_NAMED_RX_CTX | FI_COLLECTIVE;
  constexpr uint64_t kReceive = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RECV |
                                FI_HMEM | FI_TRIGGER | FI_RMA_PMEM | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE |
                                FI_RMA_EVENT | FI_SOURCE_ERR | FI_COLLECTIVE;
  const auto check = [](const fi_info* list) {
    for (const fi_info* info = list; info; info = info->next) {
      EXPECT_EQ(info->tx_attr->caps & ~kTransmit, 0u) << info->fabric_attr->prov_name;
      EXPECT_EQ(info->rx_attr->caps & ~kReceive, 0u) << info->fabric_attr->prov_name;
      EXPECT_EQ((info->tx_attr->caps | info->rx_attr->caps) & ~info->caps, 0u) << info->fabric_attr->prov_name;
    }
  };
  const Answer everything = ask(nullptr);
  ASSERT_EQ(everything.rc, 0);
  check(everything.list.get());
  const InfoPtr hints = hints_for(target(), [](fi_info& h) {
    h.caps = FI_MSG | FI_LOCAL_COMM | FI_REMOTE_COMM;
    h.tx_attr->caps = FI_MSG | FI_SEND | FI_LOCAL_COMM | FI_REMOTE_COMM;
    h.rx_attr->caps = FI_MSG | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
  });
  const Answer asked = ask(hints.get());
  ASSERT_EQ(asked.rc, 0);
  check(asked.list.get());
}

// Programs copy their capabilities to both directions.
TEST_P(Getinfo, CapabilitiesMayStandInEachDirection) {
  expect_all(
      target(),
      [](fi_info& hints) { hints.caps = hints.tx_attr->caps = hints.rx_attr->caps = FI_MSG | FI_SEND | FI_RECV; },
      [](const fi_info& info) {
        EXPECT_EQ(info.tx_attr->caps & (FI_MSG | FI_SEND | FI_RECV), FI_MSG | FI_SEND);
        EXPECT_EQ(info.rx_attr->caps & (FI_MSG | FI_SEND | FI_RECV), FI_MSG | FI_RECV);
      });
}

TEST_P(Getinfo, NumbersThatAreAnswersAreNoRequests) {
  const InfoPtr hints = hints_for(target(), [](fi_info& h) {
    h.caps = FI_MSG;
    fi_domain_attr& domain = *h.domain_attr;
    domain.cq_cnt = domain.ep_cnt = domain.max_ep_tx_ctx = domain.max_ep_rx_ctx = 1'000'000;
    domain.max_ep_stx_ctx = domain.max_ep_srx_ctx = domain.tx_ctx_cnt = domain.rx_ctx_cnt = 1'000'000;
    domain.auth_key_size = 16;
    h.ep_attr->max_order_raw_size = h.ep_attr->max_order_war_size = h.ep_attr->max_order_waw_size = 1'000'000;
    if (FI_VERSION_GE(fi_version(), FI_VERSION(2, 0)))
      domain.max_group_id = 1'000'000;  // an older core has no such member
  });
  EXPECT_EQ(ask(hints.get()).rc, 0);
}

TEST_P(Getinfo, UnknownModelsOfThreadingAndProgressAreRefused) {
  EXPECT_EQ(ask(hints_for(target(), [](fi_info& h) { h.domain_attr->threading = fi_threading(99); }).get()).rc,
            -FI_ENODATA);
  EXPECT_EQ(ask(hints_for(target(), [](fi_info& h) { h.domain_attr->progress = fi_progress(99); }).get()).rc,
            -FI_ENODATA);
  EXPECT_EQ(ask(hints_for(target(), [](fi_info& h) { h.domain_attr->resource_mgmt = fi_resource_mgmt(99); }).get()).rc,
            -FI_ENODATA);
}

TEST_P(Getinfo, AnyInternetAddressIsAnsweredWithItsFamily) {
  const InfoPtr hints = hints_for(target(), [](fi_info& h) { h.addr_format = FI_SOCKADDR; });
  const Answer answer = ask(hints.get(), target().address.c_str(), nullptr, FI_SOURCE);
  ASSERT_EQ(answer.rc, 0);
  for (const fi_info* info = answer.list.get(); info; info = info->next)
    EXPECT_EQ(info->addr_format, target().addr_format);
}

// A key that the provider chooses is as long as it is; NCCL's plug-in asks for eight bytes.
TEST_P(Getinfo, KeyLengthDoesNotMatterForMessages) {
  const InfoPtr hints = hints_for(target(), [](fi_info& h) {
    h.caps = FI_MSG;
    h.domain_attr->mr_key_size = 8;
  });
  EXPECT_EQ(ask(hints.get()).rc, 0);
}

// Programs whose hints are no more than fi_allocinfo and an endpoint type.
TEST_P(Getinfo, ReliableDatagramsNeedNoRegistrationMode) {
  RELIABLE_DATAGRAMS_ONLY();
  const InfoPtr hints = hints_for(target(), [](fi_info& h) {
    h.domain_attr->mr_mode = 0;
    h.mode = 0;
  });
  const Answer plain = ask(hints.get());
  ASSERT_EQ(plain.rc, 0);
  EXPECT_TRUE(plain.list->caps & FI_MSG);
  hints->domain_attr->mr_key_size = 8;
  EXPECT_EQ(ask(hints.get()).rc, 0);
  hints->caps = FI_MSG | FI_TAGGED;
  EXPECT_EQ(ask(hints.get()).rc, 0);
}

// FI_MR_BASIC was all that there was before 1.5, also where hints do not say it.
TEST_P(Getinfo, OldProgramsGetReliableDatagrams) {
  RELIABLE_DATAGRAMS_ONLY();
  for (const int mode : {FI_MR_UNSPEC, FI_MR_BASIC, FI_MR_SCALABLE}) {
    const InfoPtr hints = hints_for(target(), [&](fi_info& h) {
      h.caps = FI_MSG | FI_RMA;
      h.mode = 0;
      h.domain_attr->mr_mode = mode;
    });
    const bool device = target().provider.find("verbs") == 0;
    if (mode == FI_MR_SCALABLE && device) continue;  // devices choose keys
    fi_info* list = nullptr;
    ASSERT_EQ(fi_getinfo(FI_VERSION(1, 4), nullptr, nullptr, 0, hints.get(), &list), 0) << mode;
    const InfoPtr owner(list);
    EXPECT_EQ(list->domain_attr->mr_mode, mode == FI_MR_SCALABLE ? FI_MR_SCALABLE : FI_MR_BASIC);
    EXPECT_EQ(list->mode, 0u);
  }
}

// Programs that name no capabilities pass any source to fi_recv, mostly 0: Open MPI's ORTE did.
TEST_P(Getinfo, ReceivesNameASourceOnlyIfThatIsRequested) {
  const Answer answer = ask(hints_for(target(), [](fi_info& h) { h.caps = 0; }).get());
  ASSERT_EQ(answer.rc, 0);
  for (const fi_info* info = answer.list.get(); info != nullptr; info = info->next) {
    EXPECT_EQ(info->caps & FI_DIRECTED_RECV, 0u);
    EXPECT_EQ(info->rx_attr->caps & FI_DIRECTED_RECV, 0u);
  }
}

// The first entry decides what a job speaks; libfabric 2.x, whose ranks may be in the same job, puts it first, too:
// tcp's own protocol, and for atomic operations that of ofi_rxm.
TEST_P(Getinfo, FirstReliableDatagramsOverTcpAreThoseOfTheReference) {
  if (target().provider != "tcp" || target().ep_type != FI_EP_RDM) GTEST_SKIP() << "of tcp only";
  constexpr uint64_t kCaps[] = {FI_MSG,    FI_TAGGED,        FI_RMA,    FI_MULTI_RECV,
                                FI_SOURCE, FI_DIRECTED_RECV, FI_ATOMIC, FI_NAMED_RX_CTX};
  for (unsigned chosen = 0; chosen < 1u << std::size(kCaps); ++chosen) {
    uint64_t caps = 0;
    for (std::size_t i = 0; i < std::size(kCaps); ++i) caps |= (chosen >> i & 1) != 0 ? kCaps[i] : 0;
    for (const char* named : {"", "tcp"}) {
      for (const int mode : {0, static_cast<int>(FI_MR_SCALABLE), FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY}) {
        const InfoPtr hints = hints_for(target(), [&](fi_info& h) {
          h.caps = caps;
          h.domain_attr->mr_mode = mode;
          std::free(h.fabric_attr->prov_name);
          h.fabric_attr->prov_name = *named ? strdup(named) : nullptr;
        });
        const Answer answer = ask(hints.get());
        ASSERT_EQ(answer.rc, 0) << caps;
        const fi_info* first = answer.list.get();
        while (first && std::string(first->fabric_attr->prov_name).find("tcp") != 0) first = first->next;
        ASSERT_TRUE(first);
        EXPECT_STREQ(first->fabric_attr->prov_name, (caps & FI_ATOMIC) != 0 ? "tcp;ofi_rxm" : "tcp")
            << "caps " << std::hex << caps << ", mr_mode " << mode << ", provider \"" << named << '"';
      }
    }
  }
}

// Hints may leave the endpoint's type open, and the reference's tcp may not serve them, though weft's does.
TEST_P(Getinfo, FirstAnswerOverTcpIsThatOfTheReference) {
  if (target().provider != "tcp" || target().ep_type != FI_EP_RDM) GTEST_SKIP() << "of tcp only";
  const auto any_type = [](fi_info& h) { h.ep_attr->type = FI_EP_UNSPEC; };
  const struct {
    const char* hints;
    HintsEditor edit;
    const char* first;
  } rows[] = {
      {"no type", any_type, "tcp"},
      {"no type, messages",
       [&](fi_info& h) {
         any_type(h);
         h.caps = FI_MSG;
       },
       "tcp"},
      {"no type, tagged",
       [&](fi_info& h) {
         any_type(h);
         h.caps = FI_TAGGED;
       },
       "tcp"},
      {"no type, atomic operations",
       [&](fi_info& h) {
         any_type(h);
         h.caps = FI_ATOMIC;
       },
       "tcp;ofi_rxm"},
      {"128 bytes injected", [](fi_info& h) { h.tx_attr->inject_size = 128; }, "tcp"},
      {"129 bytes injected", [](fi_info& h) { h.tx_attr->inject_size = 129; }, "tcp;ofi_rxm"},
      {"16 KiB injected", [](fi_info& h) { h.tx_attr->inject_size = 16384; }, "tcp;ofi_rxm"},
      {"atomic operations of senders", [](fi_info& h) { h.tx_attr->caps = FI_ATOMIC; }, "tcp;ofi_rxm"},
      {"atomic operations of receivers", [](fi_info& h) { h.rx_attr->caps = FI_ATOMIC; }, "tcp;ofi_rxm"},
      {"writes after reads",
       [](fi_info& h) {
         h.caps = FI_RMA;
         h.ep_attr->max_order_war_size = 8;
       },
       "tcp;ofi_rxm"},
      {"a provider without a name", [](fi_info& h) { h.fabric_attr->prov_name = strdup(""); }, "tcp;ofi_rxm"},
  };
  for (const auto& row : rows) {
    const InfoPtr hints = hints_for(target(), [&](fi_info& h) {
      std::free(std::exchange(h.fabric_attr->prov_name, nullptr));
      h.caps = 0;
      row.edit(h);
    });
    const Answer answer = ask(hints.get());
    ASSERT_EQ(answer.rc, 0) << row.hints;
    const fi_info* first = answer.list.get();
    while (first && std::string(first->fabric_attr->prov_name).find("verbs") == 0) first = first->next;
    ASSERT_TRUE(first) << row.hints;
    EXPECT_STREQ(first->fabric_attr->prov_name, row.first) << row.hints;
    EXPECT_EQ(first->ep_attr->type, FI_EP_RDM) << row.hints;
  }
}

// The reference's verbs demands modes that weft's does without: other providers come first where hints lack them.
TEST_P(Getinfo, FirstAnswerOverDevicesIsThatOfTheReference) {
  if (target().provider != "verbs" || target().ep_type != FI_EP_MSG) GTEST_SKIP() << "of devices only";
  constexpr int kBasic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  const struct {
    fi_ep_type type;
    uint64_t mode;
    int mr_mode;
    const char* first;
  } rows[] = {
      {FI_EP_MSG, 0, FI_MR_LOCAL | kBasic, "verbs"},   {FI_EP_MSG, FI_LOCAL_MR, FI_MR_UNSPEC, "verbs"},
      {FI_EP_MSG, FI_LOCAL_MR, FI_MR_BASIC, "verbs"},  {FI_EP_MSG, 0, FI_MR_LOCAL, "tcp"},
      {FI_EP_MSG, FI_LOCAL_MR, FI_MR_SCALABLE, "tcp"}, {FI_EP_DGRAM, FI_MSG_PREFIX, FI_MR_LOCAL | kBasic, "verbs"},
      {FI_EP_DGRAM, 0, FI_MR_LOCAL | kBasic, "udp"},   {FI_EP_DGRAM, FI_MSG_PREFIX, FI_MR_LOCAL, "udp"},
      {FI_EP_RDM, 0, kBasic, "verbs;ofi_rxm"},         {FI_EP_RDM, 0, FI_MR_UNSPEC, "verbs;ofi_rxm"},
      {FI_EP_RDM, 0, FI_MR_SCALABLE, "tcp"},           {FI_EP_UNSPEC, 0, FI_MR_LOCAL | kBasic, "verbs"},
      {FI_EP_UNSPEC, 0, FI_MR_LOCAL, "verbs;ofi_rxm"},
  };
  for (const auto& row : rows) {
    const InfoPtr hints(fi_allocinfo());
    hints->caps = FI_MSG;
    hints->mode = row.mode;
    hints->ep_attr->type = row.type;
    hints->domain_attr->mr_mode = row.mr_mode;
    const Answer answer = ask(hints.get());
    ASSERT_EQ(answer.rc, 0) << row.type << ' ' << row.mr_mode;
    EXPECT_STREQ(answer.list->fabric_attr->prov_name, row.first)
        << "type " << row.type << ", mode " << row.mode << ", mr_mode " << row.mr_mode;
  }
}

// fi_verbs(7): its connections have messages, remote access and atomic operations; fi_rxm(7) has the rest over them,
// and fi_tcp(7) has tagged messages over connections.
TEST_P(Getinfo, FirstAnswerOverDevicesIsThatOfTheReferenceForEachSetOfCapabilities) {
  if (target().provider != "verbs" || target().ep_type != FI_EP_MSG) GTEST_SKIP() << "of devices only";
  constexpr uint64_t kCaps[] = {FI_MSG, FI_RMA, FI_ATOMIC, FI_TAGGED, FI_MULTI_RECV, FI_SOURCE, FI_DIRECTED_RECV};
  constexpr std::size_t kOfConnections = 4;
  for (const fi_ep_type type : {FI_EP_MSG, FI_EP_RDM}) {
    for (unsigned chosen = 0; chosen < 1u << (type == FI_EP_MSG ? kOfConnections : std::size(kCaps)); ++chosen) {
      uint64_t caps = 0;
      for (std::size_t i = 0; i < std::size(kCaps); ++i) caps |= (chosen >> i & 1) != 0 ? kCaps[i] : 0;
      for (const char* named : {"", "verbs", "tcp"}) {
        const InfoPtr hints(fi_allocinfo());
        hints->caps = caps;
        hints->ep_attr->type = type;
        hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        if (*named != 0) hints->fabric_attr->prov_name = strdup(named);
        const bool by_device = *named != 't';
        const bool layered = type == FI_EP_RDM && (by_device || (caps & FI_ATOMIC) != 0);
        std::string first = by_device ? "verbs" : "tcp";
        if (type == FI_EP_MSG && by_device && (caps & FI_TAGGED) != 0) first = *named != 0 ? "" : "tcp";
        if (type == FI_EP_MSG && first == "tcp" && (caps & FI_ATOMIC) != 0) first = "";
        if (layered) first += ";ofi_rxm";
        const Answer answer = ask(hints.get());
        EXPECT_EQ(answer.rc == 0 ? answer.list->fabric_attr->prov_name : "", first)
            << "type " << type << ", caps " << std::hex << caps << ", provider \"" << named << '"';
      }
    }
  }
}

TEST_P(Getinfo, LocalRegistrationStandsForTheModeOfConnections) {
  CONNECTED_ONLY();
  const InfoPtr hints = hints_for(target(), [](fi_info& h) {
    h.caps = FI_MSG | FI_RMA;
    h.mode = FI_CONTEXT | FI_LOCAL_MR;
    h.domain_attr->mr_mode = FI_MR_UNSPEC;
  });
  EXPECT_EQ(ask(hints.get()).rc, 0);
}

TEST_P(Getinfo, CapabilitiesOfNoProviderGiveNoData) {
  expect_nothing(target(), [](fi_info& hints) { hints.caps = FI_MSG | FI_HMEM | FI_COLLECTIVE; });
}

TEST_P(Getinfo, ModeBitsTheApplicationLacksAreNotRequired) {
  expect_all(
      target(), [](fi_info& hints) { hints.mode = ~0ull; }, [](const fi_info&) {});
  const InfoPtr hints = hints_for(target(), [](fi_info& h) { h.mode = 0; });
  const Answer answer = ask(hints.get());
  for (const fi_info* info = answer.list.get(); info; info = info->next) EXPECT_EQ(info->mode, 0u);
}

TEST_P(Getinfo, AttributesAreAtLeastTheHinted) {
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

TEST_P(Getinfo, RequestedOrderingIsGranted) {
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

// A server that serves all interfaces; and each later call with its answer as hints.
TEST_P(Getinfo, ServiceWithoutANodeIsAnyInterfaceAndAGoodHint) {
  const InfoPtr hints = hints_for(target());
  const Answer any = ask(hints.get(), nullptr, "7471", FI_SOURCE);
  ASSERT_EQ(any.rc, 0);
  const Address source = Address::copied(any.list->src_addr, any.list->src_addrlen);
  if (target().provider.starts_with("verbs")) GTEST_SKIP() << "each device has addresses of its own";
  EXPECT_EQ(source, Address::numeric(source.storage.ss_family == AF_INET ? "0.0.0.0" : "::", 7471));
  EXPECT_EQ(ask(any.list.get()).rc, 0);
  EXPECT_EQ(ask(any.list.get(), nullptr, "7472", FI_SOURCE).rc, 0);
  const Answer client = ask(any.list.get(), target().address.c_str(), "7471");
  ASSERT_EQ(client.rc, 0);
  EXPECT_STREQ(client.list->domain_attr->name, any.list->domain_attr->name);
  fid_fabric* fabric = nullptr;
  ASSERT_EQ(fi_fabric(any.list->fabric_attr, &fabric, nullptr), 0);
  const Handle<fid_fabric> fabric_owner(fabric);
  fid_domain* domain = nullptr;
  ASSERT_EQ(fi_domain(fabric, any.list.get(), &domain, nullptr), 0);
  const Handle<fid_domain> domain_owner(domain);
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

TEST_P(Getinfo, LengthsWithoutAddressesAreIgnored) {
  const InfoPtr hints = hints_for(target(), [](fi_info& h) { h.src_addrlen = h.dest_addrlen = sizeof(sockaddr_in); });
  const Answer answer = ask(hints.get());
  ASSERT_EQ(answer.rc, 0);
  const InfoPtr copy(fi_dupinfo(hints.get()));
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->src_addr, nullptr);
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
  const int needed = Fabric(target()).info()->domain_attr->mr_mode;  // bits of 1.5, or none
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

// A layer asks for the provider below when its domain is opened.
TEST_P(Getinfo, LackOfDescriptorsIsReportedAsSuch) {
  const Fabric fabric(target());
  std::optional<NoDescriptors> none(std::in_place);
  const InfoPtr hints = hints_for(target());
  const Answer answer = ask(hints.get());
  fid_domain* domain = nullptr;
  const int rc = fi_domain(fabric.fabric(), fabric.info(), &domain, nullptr);
  none.reset();
  EXPECT_TRUE(answer.rc == 0 || answer.rc == -FI_EMFILE) << answer.rc;
  EXPECT_TRUE(rc == 0 || rc == -FI_EMFILE) << rc;
  if (rc == 0) {
    EXPECT_EQ(fi_close(&domain->fid), 0);
  }
}

}  // namespace getinfo
