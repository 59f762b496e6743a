// SPDX-License-Identifier: BSD-2-Clause
// fi_dupinfo, fi_tostr, fi_strerror, fi_version, parameters: calls that return text or copies; fi_getinfo(3), fi_tostr
// in fi_fabric(3), fi_errno(3), fi_provider(3).
#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_prov.h>

#include <algorithm>
#include <cstdlib>

#include "fixture/address.h"
#include "fixture/fabric.h"

namespace info_text {

CONFORMANCE_TOPIC(InfoText);

namespace {

std::string text_of(const void* value, fi_type type) {
  return fi_tostr(value, type);
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_P(InfoText, DuplicateIsDeepAndEqual) {
  Fabric fabric(target());
  const InfoPtr copy = fabric.duplicate_info();
  ASSERT_TRUE(copy);
  EXPECT_EQ(text_of(copy.get(), FI_TYPE_INFO), text_of(fabric.info(), FI_TYPE_INFO));
  EXPECT_NE(copy->tx_attr, fabric.info()->tx_attr);
  EXPECT_NE(copy->src_addr, fabric.info()->src_addr);
  EXPECT_NE(copy->fabric_attr->prov_name, fabric.info()->fabric_attr->prov_name);
  EXPECT_EQ(copy->next, nullptr) << "a single structure";
}

TEST_P(InfoText, AllocatedInfoIsZeroWithAllSubstructures) {
  const InfoPtr info(fi_allocinfo());
  ASSERT_TRUE(info && info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr);
  EXPECT_EQ(info->caps, 0u);
  EXPECT_EQ(info->ep_attr->type, FI_EP_UNSPEC);
  EXPECT_EQ(info->domain_attr->name, nullptr);
  fi_freeinfo(nullptr);
}

TEST_P(InfoText, InfoNamesItsParts) {
  Fabric fabric(target());
  const std::string text = text_of(fabric.info(), FI_TYPE_INFO);
  for (const char* part : {"fi_info:", "caps:", "fi_tx_attr:", "fi_rx_attr:", "fi_ep_attr:", "fi_domain_attr:",
                           "fi_fabric_attr:", "prov_name: ", "src_addr:"})
    EXPECT_TRUE(contains(text, part)) << part;
  EXPECT_TRUE(contains(text, target().provider));
  EXPECT_TRUE(contains(text, target().address));
}

TEST_P(InfoText, BitsAndEnumsAreNamed) {
  const uint64_t caps = FI_MSG | FI_RMA | FI_REMOTE_READ, flags = FI_COMPLETION | FI_INJECT, order = FI_ORDER_SAS;
  const uint64_t completion = FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA;
  const fi_ep_type type = FI_EP_MSG;
  const uint32_t format = FI_SOCKADDR_IN, event = FI_CONNREQ;
  const fi_threading threading = FI_THREAD_DOMAIN;
  const fi_av_type av = FI_AV_TABLE;
  EXPECT_EQ(text_of(&type, FI_TYPE_EP_TYPE), "FI_EP_MSG");
  EXPECT_EQ(text_of(&format, FI_TYPE_ADDR_FORMAT), "FI_SOCKADDR_IN");
  EXPECT_EQ(text_of(&threading, FI_TYPE_THREADING), "FI_THREAD_DOMAIN");
  EXPECT_EQ(text_of(&av, FI_TYPE_AV_TYPE), "FI_AV_TABLE");
  EXPECT_EQ(text_of(&event, FI_TYPE_EQ_EVENT), "FI_CONNREQ");
  for (const char* name : {"FI_MSG", "FI_RMA", "FI_REMOTE_READ"})
    EXPECT_TRUE(contains(text_of(&caps, FI_TYPE_CAPS), name)) << name;
  for (const char* name : {"FI_COMPLETION", "FI_INJECT"})
    EXPECT_TRUE(contains(text_of(&flags, FI_TYPE_OP_FLAGS), name)) << name;
  EXPECT_TRUE(contains(text_of(&order, FI_TYPE_MSG_ORDER), "FI_ORDER_SAS"));
  for (const char* name : {"FI_RECV", "FI_TAGGED", "FI_REMOTE_CQ_DATA"})
    EXPECT_TRUE(contains(text_of(&completion, FI_TYPE_CQ_EVENT_FLAGS), name)) << name;
}

TEST_P(InfoText, ReentrantFormKeepsToTheBuffer) {
  const uint64_t caps = FI_MSG | FI_RMA | FI_TAGGED;
  char text[256], room[16];
  EXPECT_EQ(fi_tostr_r(text, sizeof text, &caps, FI_TYPE_CAPS), text);
  EXPECT_EQ(text_of(&caps, FI_TYPE_CAPS), text);
  std::memset(room, '#', sizeof room);
  fi_tostr_r(room, 8, &caps, FI_TYPE_CAPS);
  EXPECT_EQ(room[8], '#');
  EXPECT_NE(std::find(room, room + 8, '\0'), room + 8) << "terminated";
}

TEST_P(InfoText, ErrorsOfBothRangesHaveASentence) {
  for (int err :
       std::initializer_list<int>{FI_EINVAL, FI_EAGAIN, FI_ECONNREFUSED, FI_ETIMEDOUT, FI_ETOOSMALL, FI_EOPBADSTATE,
                                  FI_EAVAIL, FI_ENOEQ, FI_ENOCQ, FI_ETRUNC, FI_ENOKEY, FI_EOVERRUN, FI_ECANCELED}) {
    ASSERT_NE(fi_strerror(err), nullptr);
    EXPECT_STRNE(fi_strerror(err), "");
  }
  EXPECT_STRNE(fi_strerror(FI_ETRUNC), fi_strerror(FI_ENOKEY));
  EXPECT_NE(fi_strerror(123456), nullptr);
}

TEST_P(InfoText, VersionIsAtLeastTheOldestSupported) {
  EXPECT_GE(fi_version(), FI_VERSION(1, 17));
}

TEST_P(InfoText, ParametersAreListed) {
  ASSERT_TRUE(Fabric::offers(target(), {}));  // providers have defined theirs by now
  fi_param* list = nullptr;
  int count = 0;
  ASSERT_EQ(fi_getparams(&list, &count), 0);
  ASSERT_GT(count, 0);
  bool provider = false, log_level = false;
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(list[i].name && list[i].help_string);
    provider = provider || std::string(list[i].name) == "FI_PROVIDER";
    log_level = log_level || std::string(list[i].name) == "FI_LOG_LEVEL";
  }
  EXPECT_TRUE(provider);
  EXPECT_TRUE(log_level);
  fi_freeparams(list);
}

TEST_P(InfoText, ParametersAreReadFromTheEnvironment) {
  static fi_provider provider{};
  static const bool defined = [] {
    provider.name = "conform";
    provider.version = FI_VERSION(1, 0);
    provider.fi_version = FI_VERSION(1, 9);
    setenv("FI_CONFORM_NUMBER", "0x20", 1);
    setenv("FI_CONFORM_SWITCH", "on", 1);
    setenv("FI_CONFORM_WORD", "hello", 1);
    setenv("FI_CONFORM_DOUBTFUL", "perhaps", 1);
    return !fi_param_define(&provider, "number", FI_PARAM_INT, "A number (default: %d)", 3) &&
           !fi_param_define(&provider, "unset", FI_PARAM_INT, "Another number") &&
           !fi_param_define(&provider, "switch", FI_PARAM_BOOL, "A switch") &&
           !fi_param_define(&provider, "doubtful", FI_PARAM_BOOL, "Another switch") &&
           !fi_param_define(&provider, "word", FI_PARAM_STRING, "A word");
  }();
  ASSERT_TRUE(defined);
  int number = -7, flag = -7;
  char* word = nullptr;
  EXPECT_EQ(fi_param_get_int(&provider, "unset", &number), -FI_ENODATA);
  EXPECT_EQ(number, -7) << "untouched";
  EXPECT_EQ(fi_param_get_int(&provider, "undefined", &number), -FI_ENOENT);
  EXPECT_EQ(fi_param_get_int(&provider, "number", &number), 0);
  EXPECT_EQ(number, 32);
  EXPECT_EQ(fi_param_get_bool(&provider, "switch", &flag), 0);
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(fi_param_get_str(&provider, "word", &word), 0);
  EXPECT_STREQ(word, "hello");
  EXPECT_EQ(fi_param_get_bool(&provider, "doubtful", &flag), -FI_EINVAL);
  EXPECT_EQ(flag, 1) << "untouched";
}

}  // namespace info_text
