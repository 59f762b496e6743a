// SPDX-License-Identifier: BSD-2-Clause
// Hints against an offer, field by field: the refusals and their log lines; fi_getinfo(3).
#include "objects/attributes.h"

#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "objects/info.h"
#include "public_symbols.h"

namespace weft {
namespace {

constexpr uint32_t kApi = FI_VERSION(2, 6);

struct AttributesTest : testing::Test {
  AttributesTest() {
    provider.name = "tcp";
    offer->caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE |
                  FI_MULTI_RECV | FI_LOCAL_COMM | FI_RMA_EVENT | FI_SOURCE;
    offer->addr_format = FI_SOCKADDR_IN;
    offer->tx_attr->caps = FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE | FI_LOCAL_COMM;
    offer->tx_attr->op_flags = FI_COMPLETION | FI_INJECT;
    offer->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_WAW;
    offer->tx_attr->comp_order = FI_ORDER_STRICT;
    offer->tx_attr->inject_size = 64;
    offer->tx_attr->size = 256;
    offer->tx_attr->iov_limit = 4;
    offer->tx_attr->rma_iov_limit = 3;
    offer->rx_attr->caps = FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_SOURCE;
    offer->rx_attr->op_flags = FI_COMPLETION;
    offer->rx_attr->msg_order = FI_ORDER_SAS;
    offer->rx_attr->comp_order = FI_ORDER_STRICT;
    offer->rx_attr->size = 256;
    offer->rx_attr->iov_limit = 4;
    *offer->ep_attr = {.type = FI_EP_MSG,
                       .protocol = FI_PROTO_SOCK_TCP,
                       .protocol_version = 3,
                       .max_msg_size = 1000,
                       .msg_prefix_size = 0,
                       .max_order_raw_size = 10,
                       .max_order_war_size = 0,
                       .max_order_waw_size = 20,
                       .mem_tag_format = uint64_t{1} << 40,
                       .tx_ctx_cnt = 1,
                       .rx_ctx_cnt = 1,
                       .auth_key_size = 0,
                       .auth_key = nullptr,
                       .xpu_ctx = nullptr};
    fi_domain_attr& domain = *offer->domain_attr;
    domain.name = ::strdup("lo");
    domain.threading = FI_THREAD_SAFE;
    domain.control_progress = FI_PROGRESS_MANUAL;
    domain.progress = FI_PROGRESS_MANUAL;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.mr_key_size = 8;
    domain.cq_data_size = 8;
    domain.cq_cnt = domain.ep_cnt = domain.tx_ctx_cnt = domain.rx_ctx_cnt = 100;
    domain.max_ep_tx_ctx = domain.max_ep_rx_ctx = 1;
    domain.max_ep_srx_ctx = 10;
    domain.cntr_cnt = 5;
    domain.mr_iov_limit = 1;
    domain.caps = FI_LOCAL_COMM;
    domain.max_err_data = 56;
    domain.mr_cnt = 7;
    domain.max_cntr_value = domain.max_err_cntr_value = 1000;
    offer->fabric_attr->name = ::strdup("127.0.0.0/8");
    offer->fabric_attr->prov_version = 206;
    take_log();
  }

  bool matches(uint32_t version = kApi) { return check_info(*offer, version, hints.get(), &provider).ok(); }
  // Sets one hint; it must be refused with exactly `sentence`, and accepted at the limit set by `within`.
  void expect_refused(const std::function<void(fi_info&)>& beyond, const std::string& sentence,
                      const std::function<void(fi_info&)>& within, uint32_t version = kApi) {
    hints.reset(allocate_info());
    beyond(*hints);
    EXPECT_EQ(check_info(*offer, version, hints.get(), &provider).code(), -FI_ENODATA) << sentence;
    EXPECT_EQ(take_log(), std::vector<std::string>{sentence});
    hints.reset(allocate_info());
    within(*hints);
    EXPECT_TRUE(matches(version)) << sentence;
    EXPECT_EQ(take_log(), std::vector<std::string>{});
  }
  fi_info& answer(uint32_t version = kApi) {
    result.reset(duplicate_info(offer.get()));
    EXPECT_TRUE(check_info(*result, version, hints.get(), &provider).ok());
    apply_hints(*result, version, hints.get());
    return *result;
  }

  fi_provider provider{};
  InfoPtr offer{allocate_info()};
  InfoPtr hints{allocate_info()};
  InfoPtr result;
};

TEST_F(AttributesTest, NoHintsAndEmptyHintsMatch) {
  EXPECT_TRUE(matches());
  EXPECT_TRUE(check_info(*offer, kApi, nullptr, &provider).ok());
  fi_info bare{};  // without any attribute structure
  EXPECT_TRUE(check_info(*offer, kApi, &bare, &provider).ok());
  apply_hints(*offer, kApi, &bare);
  EXPECT_EQ(take_log(), std::vector<std::string>{});
}

#define FIELD(field, value) [](fi_info& h) { h.field = (value); }

TEST_F(AttributesTest, EachLimitIsRefusedBeyondAndGrantedWithin) {
  const auto limit = [this](const char* name, auto set, uint64_t offered, uint32_t version = kApi) {
    expect_refused([&](fi_info& h) { set(h, offered + 1); },
                   "hints request " + std::string(name) + " " + std::to_string(offered + 1) + ", tcp offers " +
                       std::to_string(offered),
                   [&](fi_info& h) { set(h, offered); }, version);
  };
#define LIMIT(field, offered) \
  limit(                      \
      #field, [](fi_info& h, uint64_t v) { h.field = static_cast<decltype(h.field)>(v); }, offered)
  LIMIT(tx_attr->inject_size, 64);
  LIMIT(tx_attr->size, 256);
  LIMIT(tx_attr->iov_limit, 4);
  LIMIT(tx_attr->rma_iov_limit, 3);
  LIMIT(rx_attr->size, 256);
  LIMIT(rx_attr->iov_limit, 4);
  LIMIT(ep_attr->max_msg_size, 1000);
  LIMIT(ep_attr->tx_ctx_cnt, 1);
  LIMIT(ep_attr->rx_ctx_cnt, 1);
  LIMIT(ep_attr->auth_key_size, 0);
  LIMIT(domain_attr->cq_data_size, 8);
  LIMIT(domain_attr->cntr_cnt, 5);
  LIMIT(domain_attr->mr_iov_limit, 1);
  LIMIT(domain_attr->max_err_data, 56);
  LIMIT(domain_attr->mr_cnt, 7);
  LIMIT(domain_attr->max_ep_auth_key, 0);
  LIMIT(domain_attr->max_cntr_value, 1000);
  LIMIT(domain_attr->max_err_cntr_value, 1000);
  LIMIT(fabric_attr->prov_version, 206);
#undef LIMIT
}

TEST_F(AttributesTest, NumbersThatNothingDependsOnAreGranted) {
  hints->domain_attr->tx_ctx_cnt = hints->domain_attr->rx_ctx_cnt = 1'000'000;
  hints->domain_attr->auth_key_size = 16;
  EXPECT_TRUE(matches());
  EXPECT_EQ(answer().domain_attr->auth_key_size, 0u);
  hints = InfoPtr(allocate_info());
  expect_refused(FIELD(domain_attr->auth_key_size, FI_AV_AUTH_KEY),
                 "hints request FI_AV_AUTH_KEY, which tcp does not offer", FIELD(domain_attr->auth_key_size, 16));
}

TEST_F(AttributesTest, KeysOfACallerHaveEightBytesAtMost) {
  offer->domain_attr->mr_key_size = 4;
  expect_refused(FIELD(domain_attr->mr_key_size, 64), "hints request domain_attr->mr_key_size 8, tcp offers 4",
                 FIELD(domain_attr->mr_key_size, 4));
  offer->domain_attr->mr_key_size = 8;
  hints->domain_attr->mr_key_size = 64;
  EXPECT_TRUE(matches());
}

TEST_F(AttributesTest, CapabilitiesOfTheEndpointMayStandInEachDirection) {
  hints->caps = hints->tx_attr->caps = hints->rx_attr->caps = FI_MSG | FI_SEND | FI_RECV;
  const fi_info& info = answer();
  EXPECT_EQ(info.tx_attr->caps & (FI_MSG | FI_SEND | FI_RECV), FI_MSG | FI_SEND);
  EXPECT_EQ(info.rx_attr->caps & (FI_MSG | FI_SEND | FI_RECV), FI_MSG | FI_RECV);
}

TEST_F(AttributesTest, CapabilitiesOfTheOtherDirectionRequestNothing) {
  hints->caps = FI_MSG;
  hints->tx_attr->caps = FI_MSG | FI_SEND | FI_DIRECTED_RECV | FI_RMA_EVENT | FI_SOURCE_ERR;
  hints->rx_attr->caps = FI_MSG | FI_RECV | FI_NAMED_RX_CTX | FI_FENCE | FI_MULTICAST;
  EXPECT_TRUE(check_info(*offer, kApi, hints.get(), &provider).ok());
}

TEST_F(AttributesTest, UnknownValuesOfEnumerationsAreRefused) {
#define UNKNOWN(member, last, value)                                                               \
  expect_refused(FIELD(domain_attr->member, static_cast<decltype(fi_domain_attr::member)>(value)), \
                 "hints request domain_attr->" #member " " #value ", which does not exist",        \
                 FIELD(domain_attr->member, last))
  UNKNOWN(threading, FI_THREAD_ENDPOINT, 6);
  UNKNOWN(control_progress, FI_PROGRESS_CONTROL_UNIFIED, 4);
  UNKNOWN(progress, FI_PROGRESS_CONTROL_UNIFIED, 4);
  UNKNOWN(resource_mgmt, FI_RM_ENABLED, 3);
  UNKNOWN(av_type, FI_AV_TABLE, 3);
#undef UNKNOWN
}

TEST_F(AttributesTest, BitsThatAreNotOfferedAreNamed) {
  expect_refused(FIELD(caps, FI_MSG | FI_ATOMIC | FI_TAGGED),
                 "hints request caps FI_TAGGED|FI_ATOMIC, which tcp does not offer", FIELD(caps, FI_MSG | FI_RMA));
  expect_refused(FIELD(caps, uint64_t{1} << 62), "hints request caps 0x4000000000000000, which tcp does not offer",
                 FIELD(caps, FI_SOURCE));
  expect_refused(FIELD(tx_attr->caps, FI_TAGGED), "hints request tx_attr->caps FI_TAGGED, which tcp does not offer",
                 FIELD(tx_attr->caps, FI_SEND));
  expect_refused(FIELD(rx_attr->caps, FI_TAGGED), "hints request rx_attr->caps FI_TAGGED, which tcp does not offer",
                 FIELD(rx_attr->caps, FI_RECV));
  expect_refused(FIELD(tx_attr->op_flags, FI_COMMIT_COMPLETE),
                 "hints request tx_attr->op_flags FI_COMMIT_COMPLETE, which tcp does not offer",
                 FIELD(tx_attr->op_flags, FI_INJECT));
  expect_refused(FIELD(rx_attr->op_flags, FI_MULTI_RECV),
                 "hints request rx_attr->op_flags FI_MULTI_RECV, which tcp does not offer",
                 FIELD(rx_attr->op_flags, FI_COMPLETION));
  expect_refused(FIELD(tx_attr->msg_order, FI_ORDER_RAR),
                 "hints request tx_attr->msg_order FI_ORDER_RAR, which tcp does not offer",
                 FIELD(tx_attr->msg_order, FI_ORDER_WAW));
  expect_refused(FIELD(rx_attr->msg_order, FI_ORDER_WAW),
                 "hints request rx_attr->msg_order FI_ORDER_WAW, which tcp does not offer",
                 FIELD(rx_attr->msg_order, FI_ORDER_SAS));
  expect_refused(FIELD(tx_attr->comp_order, FI_ORDER_DATA),
                 "hints request tx_attr->comp_order FI_ORDER_DATA, which tcp does not offer",
                 FIELD(tx_attr->comp_order, FI_ORDER_STRICT));
  expect_refused(FIELD(rx_attr->comp_order, FI_ORDER_DATA),
                 "hints request rx_attr->comp_order FI_ORDER_DATA, which tcp does not offer",
                 FIELD(rx_attr->comp_order, FI_ORDER_STRICT));
  expect_refused(FIELD(domain_attr->caps, FI_SHARED_AV),
                 "hints request domain_attr->caps FI_SHARED_AV, which tcp does not offer",
                 FIELD(domain_attr->caps, FI_LOCAL_COMM));
}

TEST_F(AttributesTest, EndpointIsComparedWithTheOfferButItsDomainIsNot) {
  const auto opens = [this](const std::function<void(fi_info&)>& change) {
    InfoPtr info(duplicate_info(offer.get()));
    change(*info);
    return check_endpoint(*offer, kApi, *info, provider).ok();
  };
  EXPECT_TRUE(opens([](fi_info&) {}));
  EXPECT_TRUE(opens(FIELD(domain_attr->cntr_cnt, SIZE_MAX)));
  EXPECT_TRUE(opens(FIELD(tx_attr->comp_order, FI_ORDER_STRICT)));
  EXPECT_TRUE(opens(FIELD(tx_attr->op_flags, FI_COMMIT_COMPLETE)));
  EXPECT_TRUE(opens(FIELD(caps, FI_MSG | FI_RMA_PMEM)));
  EXPECT_EQ(take_log(), std::vector<std::string>{});
  EXPECT_FALSE(opens(FIELD(tx_attr->inject_size, 65)));
  EXPECT_FALSE(opens(FIELD(caps, FI_TAGGED)));
  EXPECT_EQ(take_log(),
            (std::vector<std::string>{"the endpoint's info requests tx_attr->inject_size 65, tcp offers 64",
                                      "the endpoint's info requests caps FI_TAGGED, which tcp does not offer"}));
}

TEST_F(AttributesTest, EnumerationsMustAgree) {
  expect_refused(FIELD(ep_attr->type, FI_EP_RDM), "hints request ep_attr->type FI_EP_RDM, tcp offers FI_EP_MSG",
                 FIELD(ep_attr->type, FI_EP_MSG));
  expect_refused(FIELD(ep_attr->protocol, FI_PROTO_RXM), "hints request ep_attr->protocol 11, tcp offers 6",
                 FIELD(ep_attr->protocol, FI_PROTO_SOCK_TCP));
  expect_refused(
      [](fi_info& h) {
        h.ep_attr->protocol = FI_PROTO_SOCK_TCP;
        h.ep_attr->protocol_version = 4;
      },
      "hints request ep_attr->protocol_version 4, tcp offers 3", FIELD(ep_attr->protocol_version, 4));
  expect_refused(FIELD(ep_attr->mem_tag_format, uint64_t{1} << 41),
                 "hints request ep_attr->mem_tag_format, bits 42, tcp offers 41",
                 FIELD(ep_attr->mem_tag_format, uint64_t{1} << 40));
  expect_refused(FIELD(ep_attr->tx_ctx_cnt, FI_SHARED_CONTEXT),
                 "hints request ep_attr->tx_ctx_cnt FI_SHARED_CONTEXT, which tcp does not offer",
                 FIELD(ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT));
  expect_refused(FIELD(addr_format, FI_SOCKADDR_IN6), "hints request addr_format 3, tcp offers 2",
                 FIELD(addr_format, FI_SOCKADDR));
  expect_refused(FIELD(addr_format, FI_ADDR_STR), "hints request addr_format 9, tcp offers 2",
                 FIELD(addr_format, FI_SOCKADDR_IP));
  expect_refused([](fi_info& h) { h.domain_attr->name = ::strdup("eth0"); },
                 "hints request domain_attr->name \"eth0\", tcp offers \"lo\"",
                 [](fi_info& h) { h.domain_attr->name = ::strdup("lo"); });
  expect_refused([](fi_info& h) { h.fabric_attr->name = ::strdup("10.0.0.0/8"); },
                 "hints request fabric_attr->name \"10.0.0.0/8\", tcp offers \"127.0.0.0/8\"",
                 [](fi_info& h) { h.fabric_attr->name = ::strdup("127.0.0.0/8"); });
}

TEST_F(AttributesTest, EveryThreadingModelIsServedByASafeProvider) {
  for (fi_threading model :
       {FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT}) {
    hints->domain_attr->threading = model;
    EXPECT_EQ(answer().domain_attr->threading, model);
  }
  offer->domain_attr->threading = FI_THREAD_DOMAIN;
  expect_refused(FIELD(domain_attr->threading, FI_THREAD_COMPLETION),
                 "hints request domain_attr->threading 4, tcp offers 3",
                 FIELD(domain_attr->threading, FI_THREAD_DOMAIN));
}

TEST_F(AttributesTest, ProgressIsAsRequestedOrAsPreferred) {
  EXPECT_EQ(answer().domain_attr->progress, FI_PROGRESS_MANUAL);
  hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
  EXPECT_EQ(answer().domain_attr->progress, FI_PROGRESS_AUTO);
  EXPECT_EQ(answer().domain_attr->control_progress, FI_PROGRESS_AUTO);
  hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
  EXPECT_EQ(answer().domain_attr->control_progress, FI_PROGRESS_CONTROL_UNIFIED);
}

TEST_F(AttributesTest, ResourceManagementAndAddressVectorTypesMustMatch) {
  hints->domain_attr->resource_mgmt = FI_RM_DISABLED;
  EXPECT_EQ(answer().domain_attr->resource_mgmt, FI_RM_ENABLED);
  hints->domain_attr->av_type = FI_AV_MAP;
  EXPECT_EQ(answer().domain_attr->av_type, FI_AV_MAP);
  offer->domain_attr->av_type = FI_AV_TABLE;
  expect_refused(FIELD(domain_attr->av_type, FI_AV_MAP), "hints request domain_attr->av_type 1, tcp offers 2",
                 FIELD(domain_attr->av_type, FI_AV_TABLE));
  offer->domain_attr->resource_mgmt = FI_RM_DISABLED;
  expect_refused(FIELD(domain_attr->resource_mgmt, FI_RM_ENABLED),
                 "hints request domain_attr->resource_mgmt 2, tcp offers 1",
                 FIELD(domain_attr->resource_mgmt, FI_RM_DISABLED));
}

TEST_F(AttributesTest, RequiredModesMustBeAllowed) {
  offer->mode = FI_CONTEXT;
  offer->tx_attr->mode = FI_ASYNC_IOV;
  offer->domain_attr->mode = FI_RX_CQ_DATA;
  EXPECT_FALSE(matches());
  EXPECT_EQ(take_log(),
            (std::vector<std::string>{"tcp needs mode FI_CONTEXT, which hints do not allow",
                                      "tcp needs tx_attr->mode FI_ASYNC_IOV, which hints do not allow",
                                      "tcp needs domain_attr->mode FI_RX_CQ_DATA, which hints do not allow"}));
  hints->mode = FI_CONTEXT | FI_ASYNC_IOV | FI_RX_CQ_DATA | FI_CONTEXT2;
  EXPECT_EQ(answer().mode, FI_CONTEXT) << "modes that are not needed are cleared";
}

TEST_F(AttributesTest, MrModeOfAProviderThatNeedsNothing) {
  struct Row {
    uint32_t version;
    int in, out;
  };
  for (const Row& row : {Row{FI_VERSION(1, 4), 0, FI_MR_BASIC}, Row{FI_VERSION(1, 4), FI_MR_BASIC, FI_MR_BASIC},
                         Row{FI_VERSION(1, 4), FI_MR_SCALABLE, FI_MR_SCALABLE}, Row{FI_VERSION(1, 5), 0, 0},
                         Row{kApi, FI_MR_BASIC, FI_MR_BASIC}, Row{kApi, FI_MR_SCALABLE, FI_MR_SCALABLE},
                         Row{kApi, FI_MR_VIRT_ADDR | FI_MR_PROV_KEY, 0}, Row{kApi, FI_MR_LOCAL, 0}}) {
    hints->domain_attr->mr_mode = row.in;
    EXPECT_EQ(answer(row.version).domain_attr->mr_mode, row.out) << row.version << " " << row.in;
  }
  expect_refused(FIELD(domain_attr->mr_mode, FI_MR_VIRT_ADDR),
                 "hints request domain_attr->mr_mode 0x10, which API 1.4 does not have",
                 FIELD(domain_attr->mr_mode, FI_MR_BASIC), FI_VERSION(1, 4));
  expect_refused(FIELD(domain_attr->mr_mode, FI_MR_BASIC | FI_MR_LOCAL),
                 "hints request domain_attr->mr_mode 0x5, which API 2.6 does not have",
                 FIELD(domain_attr->mr_mode, FI_MR_LOCAL));
}

TEST_F(AttributesTest, MrModeOfAProviderThatNeedsBits) {
  constexpr int kNeeded = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  offer->domain_attr->mr_mode = kNeeded;
  EXPECT_FALSE(matches());
  EXPECT_EQ(take_log(), std::vector<std::string>{
                            "tcp needs domain_attr->mr_mode "
                            "FI_MR_LOCAL|FI_MR_VIRT_ADDR|FI_MR_ALLOCATED|FI_MR_PROV_KEY, which hints do not allow"});
  hints->domain_attr->mr_mode = kNeeded | FI_MR_RMA_EVENT;
  EXPECT_EQ(answer().domain_attr->mr_mode, kNeeded);
  // Without remote access only local buffers matter.
  hints->caps = FI_MSG;
  hints->domain_attr->mr_mode = FI_MR_LOCAL;
  EXPECT_EQ(answer().domain_attr->mr_mode, FI_MR_LOCAL);
  // The old form: basic, and the mode bit for local buffers.
  hints->caps = 0;
  hints->domain_attr->mr_mode = FI_MR_BASIC;
  EXPECT_FALSE(matches());
  EXPECT_EQ(take_log(),
            std::vector<std::string>{"tcp needs domain_attr->mr_mode FI_MR_LOCAL, which hints do not allow"});
  hints->mode = FI_LOCAL_MR;
  EXPECT_EQ(answer().domain_attr->mr_mode, FI_MR_BASIC);
  EXPECT_EQ(answer().mode, FI_LOCAL_MR);
  hints->domain_attr->mr_mode = FI_MR_SCALABLE;
  EXPECT_FALSE(matches());
}

TEST_F(AttributesTest, CapabilitiesAreNarrowedToTheRequest) {
  EXPECT_EQ(answer().caps, offer->caps) << "no request: everything";
  hints->caps = FI_MSG;
  EXPECT_EQ(answer().caps, FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_LOCAL_COMM);
  EXPECT_EQ(answer().tx_attr->caps, FI_MSG | FI_SEND) << "locality is no capability of a direction";
  EXPECT_EQ(answer().rx_attr->caps, FI_MSG | FI_RECV | FI_MULTI_RECV);
  hints->caps = FI_MSG | FI_RMA | FI_READ | FI_SOURCE;
  EXPECT_EQ(answer().caps,
            FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_SOURCE | FI_MULTI_RECV | FI_LOCAL_COMM | FI_RMA_EVENT);
  EXPECT_EQ(answer().rx_attr->caps, FI_MSG | FI_RMA | FI_RECV | FI_SOURCE | FI_MULTI_RECV);
  hints->tx_attr->caps = FI_MSG | FI_SEND;
  EXPECT_EQ(answer().tx_attr->caps, FI_MSG | FI_SEND);
}

// Programs leave large numbers there.
TEST_F(AttributesTest, NumbersThatAreAnswersDoNotLimit) {
  constexpr size_t kLarge = 1'000'000;
  fi_domain_attr& domain = *hints->domain_attr;
  domain.cq_cnt = domain.ep_cnt = kLarge;
  domain.max_group_id = kLarge;
  domain.max_ep_tx_ctx = domain.max_ep_rx_ctx = domain.max_ep_stx_ctx = domain.max_ep_srx_ctx = kLarge;
  EXPECT_TRUE(matches());
  EXPECT_EQ(answer().domain_attr->max_ep_tx_ctx, 1u);
}

TEST_F(AttributesTest, SizesOfOrderedAccessLimitOnlyCallersThatRequestTheOrder) {
  const struct {
    size_t fi_ep_attr::*size;
    uint64_t other, orders[3];
  } rows[] = {
      {&fi_ep_attr::max_order_raw_size, FI_ORDER_WAR, {FI_ORDER_RAW, FI_ORDER_RMA_RAW, FI_ORDER_ATOMIC_RAW}},
      {&fi_ep_attr::max_order_war_size, FI_ORDER_WAW, {FI_ORDER_WAR, FI_ORDER_RMA_WAR, FI_ORDER_ATOMIC_WAR}},
      {&fi_ep_attr::max_order_waw_size, FI_ORDER_RAW, {FI_ORDER_WAW, FI_ORDER_RMA_WAW, FI_ORDER_ATOMIC_WAW}},
  };
  offer->tx_attr->msg_order = offer->rx_attr->msg_order = ~uint64_t{0};
  for (const auto& row : rows) {
    const size_t offered = offer->ep_attr->*row.size;
    const auto served = [&](uint64_t tx, uint64_t rx, size_t size) {
      hints.reset(allocate_info());
      hints->tx_attr->msg_order = tx;
      hints->rx_attr->msg_order = rx;
      hints->ep_attr->*row.size = size;
      return matches();
    };
    EXPECT_TRUE(served(0, row.other, offered + 1));
    for (const uint64_t order : row.orders) {
      EXPECT_TRUE(served(order, order, offered));
      EXPECT_FALSE(served(order, 0, offered + 1));
      EXPECT_FALSE(served(0, order, offered + 1));
    }
  }
}

TEST_F(AttributesTest, KeyLengthLimitsOnlyCallersThatChooseKeys) {
  offer->domain_attr->mr_key_size = 4;
  hints->domain_attr->mr_key_size = 8;
  hints->caps = FI_MSG | FI_RMA;
  EXPECT_FALSE(matches());
  hints->caps = FI_MSG;
  EXPECT_TRUE(matches());
  hints->caps = FI_MSG | FI_RMA;
  offer->domain_attr->mr_mode = hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
  EXPECT_TRUE(matches());
}

TEST_F(AttributesTest, FlagsOrderAndSizesAreAsRequested) {
  EXPECT_EQ(answer().tx_attr->op_flags, 0u) << "flags are defaults on request only";
  hints->tx_attr->op_flags = FI_COMPLETION;
  hints->rx_attr->op_flags = FI_COMPLETION;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->tx_attr->size = 16;
  hints->rx_attr->size = 8;
  hints->tx_attr->inject_size = 8;
  hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
  hints->tx_attr->tclass = FI_TC_LOW_LATENCY;
  const fi_info& info = answer(FI_VERSION(1, 17));
  EXPECT_EQ(info.tx_attr->op_flags, FI_COMPLETION);
  EXPECT_EQ(info.rx_attr->op_flags, FI_COMPLETION);
  EXPECT_EQ(info.tx_attr->msg_order, FI_ORDER_SAS);
  EXPECT_EQ(info.rx_attr->msg_order, FI_ORDER_SAS);
  EXPECT_EQ(info.tx_attr->size, 16u);
  EXPECT_EQ(info.rx_attr->size, 8u);
  EXPECT_EQ(info.tx_attr->inject_size, 64u) << "a larger limit costs nothing";
  EXPECT_EQ(info.ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
  EXPECT_EQ(info.ep_attr->tx_ctx_cnt, 1u);
  EXPECT_EQ(info.tx_attr->tclass, static_cast<uint32_t>(FI_TC_LOW_LATENCY));
  EXPECT_EQ(info.fabric_attr->api_version, static_cast<uint32_t>(FI_VERSION(1, 17)));
}

TEST_F(AttributesTest, FieldsMissingInAnOldApiAreNotCompared) {
  hints->domain_attr->mr_cnt = 1000;
  hints->domain_attr->max_cntr_value = 100000;
  EXPECT_TRUE(matches(FI_VERSION(1, 4)));
  EXPECT_FALSE(matches(FI_VERSION(1, 5)));
  hints->domain_attr->mr_cnt = 0;
  EXPECT_TRUE(matches(FI_VERSION(2, 4)));
  EXPECT_FALSE(matches(FI_VERSION(2, 5)));
}

TEST_F(AttributesTest, EveryMismatchIsLogged) {
  hints->caps = FI_ATOMIC;
  hints->tx_attr->inject_size = 4096;
  EXPECT_FALSE(matches());
  EXPECT_EQ(take_log(), (std::vector<std::string>{"hints request caps FI_ATOMIC, which tcp does not offer",
                                                  "hints request tx_attr->inject_size 4096, tcp offers 64"}));
}

}  // namespace
}  // namespace weft
