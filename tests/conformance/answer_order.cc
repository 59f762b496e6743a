// SPDX-License-Identifier: BSD-2-Clause
// Offers that weft has and libfabric 2.x, the reference, lacks: the first answer of fi_getinfo is one that both have.
// Also the protocols of answers; fi_getinfo(3), fi_endpoint(3). getinfo.cc has the hints that both serve with each
// offer.
#include "fixture/fabric.h"

namespace answer_order {

CONFORMANCE_TOPIC(AnswerOrder);

namespace {

struct Row {
  const char* hints;
  fi_ep_type type;
  uint64_t caps;
  HintsEditor edit;
  fi_ep_type first;
};

const Row kRows[] = {
    {"events of remote writes", FI_EP_RDM, FI_RMA | FI_RMA_EVENT, {}, FI_EP_RDM},
    {"no type, events of remote writes", FI_EP_UNSPEC, FI_RMA | FI_RMA_EVENT, {}, FI_EP_MSG},
    {"no type, tagged, no layer", FI_EP_UNSPEC, FI_TAGGED,
     [](fi_info& h) { h.fabric_attr->prov_name = strdup("^ofi_rxm"); }, FI_EP_RDM},
    {"no type, a shared receive context", FI_EP_UNSPEC, FI_TAGGED,
     [](fi_info& h) { h.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; }, FI_EP_MSG},
    {"no type, the protocol of reliable datagrams", FI_EP_UNSPEC, FI_MSG,
     [](fi_info& h) {
       h.ep_attr->protocol = FI_PROTO_XNET;
       h.ep_attr->protocol_version = 1;
     },
     FI_EP_RDM},
    {"no type, the protocol of connections", FI_EP_UNSPEC, FI_MSG,
     [](fi_info& h) { h.ep_attr->protocol = FI_PROTO_SOCK_TCP; }, FI_EP_MSG},
};

}  // namespace

TEST_P(AnswerOrder, OffersThatTheReferenceLacksComeLater) {
  if (target().provider != "tcp" || target().ep_type != FI_EP_RDM) GTEST_SKIP() << "of tcp only";
  for (const Row& row : kRows) {
    const InfoPtr hints = hints_for(target(), [&](fi_info& h) {
      std::free(std::exchange(h.fabric_attr->prov_name, nullptr));
      h.caps = row.caps;
      h.ep_attr->type = row.type;
      if (row.edit) row.edit(h);
    });
    fi_info* list = nullptr;
    ASSERT_EQ(fi_getinfo(api_version(), nullptr, nullptr, 0, hints.get(), &list), 0) << row.hints;
    const InfoPtr owner(list);
    while (list && std::string(list->fabric_attr->prov_name).find("verbs") == 0) list = list->next;
    ASSERT_TRUE(list) << row.hints;
    EXPECT_STREQ(list->fabric_attr->prov_name, "tcp") << row.hints;
    EXPECT_EQ(list->ep_attr->type, row.first) << row.hints;
  }
}

// Ranks compare the protocol of an answer with that of another rank, or send it along as hints.
TEST_P(AnswerOrder, ProtocolsOverTcpAreNamedAsTheReferenceNamesThem) {
  if (target().provider != "tcp") GTEST_SKIP() << "of tcp only";
  const bool connected = target().ep_type == FI_EP_MSG;
  for (const uint32_t version : std::initializer_list<uint32_t>{FI_VERSION(1, 9), FI_VERSION(1, 17), api_version()}) {
    const InfoPtr hints = hints_for(target());
    fi_info* list = nullptr;
    ASSERT_EQ(fi_getinfo(version, nullptr, nullptr, 0, hints.get(), &list), 0);
    const InfoPtr owner(list);
    EXPECT_EQ(list->ep_attr->protocol, connected ? FI_PROTO_SOCK_TCP : FI_PROTO_XNET);
    EXPECT_EQ(list->ep_attr->protocol_version, connected ? 0u : 1u);
  }
}

}  // namespace answer_order
