// SPDX-License-Identifier: BSD-2-Clause
// fi_info: allocation, deep copy, release.
#include "objects/info.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>

namespace weft {
namespace {

// A nic that counts its instances.
struct CountedNic {
  static inline int alive = 0;
  static inline int dup_result = 0;

  static int close(fid* fid) {
    --alive;
    std::free(fid);
    return 0;
  }
  static int control(fid*, int command, void* argument) {
    if (command != FI_DUP || dup_result != 0) return -FI_ENOSYS;
    *static_cast<fid_nic**>(argument) = make();
    return 0;
  }
  static fid_nic* make() {
    static fi_ops ops{sizeof(fi_ops), close, nullptr, control, nullptr, nullptr, nullptr};
    auto* nic = static_cast<fid_nic*>(std::calloc(1, sizeof(fid_nic)));
    nic->fid.fclass = FI_CLASS_NIC;
    nic->fid.ops = &ops;
    ++alive;
    return nic;
  }
};

template <class T = void>
T* heap(const void* from, std::size_t size) {
  return static_cast<T*>(std::memcpy(std::malloc(size), from, size));
}

InfoPtr full_info() {
  InfoPtr info(allocate_info());
  info->caps = FI_MSG;
  info->handle = reinterpret_cast<fid_t>(0x10);
  info->src_addr = heap("source", 7);
  info->src_addrlen = 7;
  info->dest_addr = heap("dest", 5);
  info->dest_addrlen = 5;
  info->tx_attr->size = 3;
  info->rx_attr->size = 4;
  info->ep_attr->auth_key = heap<uint8_t>("key", 3);
  info->ep_attr->auth_key_size = 3;
  info->domain_attr->name = ::strdup("domain");
  info->domain_attr->auth_key = heap<uint8_t>("keys", 4);
  info->domain_attr->auth_key_size = 4;
  info->domain_attr->max_err_cntr_value = 12;
  info->fabric_attr->name = ::strdup("fabric");
  info->fabric_attr->prov_name = ::strdup("tcp");
  return info;
}

TEST(Info, AllocatesZeroedAttributes) {
  const InfoPtr info(allocate_info());
  ASSERT_TRUE(info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr);
  EXPECT_EQ(info->nic, nullptr);
  EXPECT_EQ(info->domain_attr->mr_mode, 0);
}

TEST(Info, DuplicatesDeeply) {
  const InfoPtr info = full_info();
  fi_info next{};
  info->next = &next;
  const InfoPtr copy(duplicate_info(info.get()));
  info->next = nullptr;
  EXPECT_EQ(copy->next, nullptr);
  EXPECT_EQ(copy->caps, info->caps);
  EXPECT_EQ(copy->handle, info->handle);
  EXPECT_NE(copy->src_addr, info->src_addr);
  EXPECT_STREQ(static_cast<char*>(copy->src_addr), "source");
  EXPECT_STREQ(static_cast<char*>(copy->dest_addr), "dest");
  EXPECT_EQ(copy->tx_attr->size, 3u);
  EXPECT_EQ(copy->rx_attr->size, 4u);
  EXPECT_NE(copy->ep_attr->auth_key, info->ep_attr->auth_key);
  EXPECT_EQ(std::memcmp(copy->ep_attr->auth_key, "key", 3), 0);
  EXPECT_EQ(std::memcmp(copy->domain_attr->auth_key, "keys", 4), 0);
  EXPECT_NE(copy->domain_attr->name, info->domain_attr->name);
  EXPECT_STREQ(copy->domain_attr->name, "domain");
  EXPECT_EQ(copy->domain_attr->max_err_cntr_value, 12u);
  EXPECT_STREQ(copy->fabric_attr->prov_name, "tcp");
}

TEST(Info, AbsentPartsStayAbsent) {
  const fi_info empty{};
  const InfoPtr copy(duplicate_info(&empty));
  EXPECT_EQ(copy->tx_attr, nullptr);
  EXPECT_EQ(copy->fabric_attr, nullptr);
  EXPECT_EQ(copy->src_addr, nullptr);
}

TEST(Info, AuthKeyInTheAddressVectorHasNoBytes) {
  const InfoPtr info(allocate_info());
  info->domain_attr->auth_key_size = FI_AV_AUTH_KEY;
  const InfoPtr copy(duplicate_info(info.get()));
  EXPECT_EQ(copy->domain_attr->auth_key, nullptr);
  EXPECT_EQ(copy->domain_attr->auth_key_size, FI_AV_AUTH_KEY);
}

TEST(Info, NicsAreCopiedAndClosedThroughTheirOwnOps) {
  CountedNic::dup_result = 0;
  InfoPtr info(allocate_info());
  info->nic = CountedNic::make();
  InfoPtr copy(duplicate_info(info.get()));
  EXPECT_NE(copy->nic, info->nic);
  EXPECT_EQ(CountedNic::alive, 2);
  info.reset();
  EXPECT_EQ(CountedNic::alive, 1);
  CountedNic::dup_result = -FI_ENOSYS;
  EXPECT_EQ(InfoPtr(duplicate_info(copy.get()))->nic, nullptr) << "not copied, so not shared either";
  copy.reset();
  EXPECT_EQ(CountedNic::alive, 0);
}

TEST(Info, FreesWholeLists) {
  InfoPtr list = full_info();
  list->next = full_info().release();
  list->next->next = full_info().release();
  list.reset();  // the leak checker verifies it
  free_info(nullptr);
}

}  // namespace
}  // namespace weft
