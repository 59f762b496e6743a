// SPDX-License-Identifier: BSD-2-Clause
// Infos that several passive endpoints share.
#include "objects/shared_info.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>

namespace weft {
namespace {

InfoPtr example(const char* host = "aaaa") {
  InfoPtr info(allocate_info());
  set_name(info->fabric_attr->name, "net");
  set_name(info->domain_attr->name, "eth0");
  set_address(info->src_addr, info->src_addrlen, host, 4);
  return info;
}

TEST(SharedInfo, EqualInfosAreKeptOnce) {
  SharedInfo infos;
  const auto first = infos.copy_of(*example());
  EXPECT_EQ(infos.copy_of(*example()), first);
  EXPECT_EQ(infos.copy_of(*example("bbbb")), first);
  EXPECT_STREQ(first->domain_attr->name, "eth0");
}

TEST(SharedInfo, AddressesMayMatter) {
  SharedInfo infos(SharedInfo::Addresses::kMatter);
  const auto first = infos.copy_of(*example());
  EXPECT_EQ(infos.copy_of(*example()), first);
  const auto other = infos.copy_of(*example("bbbb"));
  EXPECT_EQ(std::memcmp(other->src_addr, "bbbb", 4), 0);
}

TEST(SharedInfo, DifferentInfosAreNotShared) {
  const std::function<void(fi_info&)> changes[] = {
      [](fi_info& info) { info.caps = FI_MSG; },
      [](fi_info& info) { info.mode = FI_CONTEXT; },
      [](fi_info& info) { info.addr_format = FI_SOCKADDR_IN; },
      [](fi_info& info) { info.handle = &reinterpret_cast<::fid&>(info); },
      [](fi_info& info) { info.tx_attr->size = 1; },
      [](fi_info& info) { info.rx_attr->caps = FI_RECV; },
      [](fi_info& info) { info.ep_attr->type = FI_EP_MSG; },
      [](fi_info& info) { info.domain_attr->progress = FI_PROGRESS_AUTO; },
      [](fi_info& info) { set_name(info.domain_attr->name, "eth1"); },
      [](fi_info& info) { set_name(info.fabric_attr->name, "nets"); },
      [](fi_info& info) { set_name(info.fabric_attr->prov_name, "tcp"); },
      [](fi_info& info) { std::free(std::exchange(info.rx_attr, nullptr)); },
      [](fi_info& info) {
        info.ep_attr->auth_key = static_cast<uint8_t*>(std::calloc(1, 1));
        info.ep_attr->auth_key_size = 1;
      },
  };
  for (const auto& change : changes) {
    SharedInfo infos;
    const auto plain = infos.copy_of(*example());
    const InfoPtr changed = example();
    change(*changed);
    const auto other = infos.copy_of(*changed);
    EXPECT_NE(other, plain) << &change - changes;
    EXPECT_NE(infos.copy_of(*example()), other) << &change - changes;
  }
}

TEST(SharedInfo, TheLastUserReleasesTheCopy) {
  SharedInfo infos;
  const std::weak_ptr<const fi_info> copy = infos.copy_of(*example());
  EXPECT_TRUE(copy.expired());
}

}  // namespace
}  // namespace weft
