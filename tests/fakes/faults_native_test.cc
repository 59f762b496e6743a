// SPDX-License-Identifier: BSD-2-Clause
// Connections between native InfiniBand addresses (FI_SOCKADDR_IB, struct sockaddr_ib): the offers of fi_getinfo,
// names, private data behind the header that the provider writes, rejections; and hosts without InfiniBand.
// fi_getinfo(3), fi_cm(3), AF_IB in rdma_cm(7).
#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <vector>

#include "conformance/fixture/parameter.h"
#include "fake_rdma.h"
#include "log_capture.h"
#include "two_ends.h"
#include "without_devices.h"

namespace faults_native_test {

namespace {

struct Infos {
  fi_info* list = nullptr;
  int result;

  explicit Infos(uint32_t format, const fi_info* like = nullptr) {
    fi_info* hints = like != nullptr ? fi_dupinfo(like) : fi_allocinfo();
    hints->addr_format = format;
    if (like == nullptr) hints->ep_attr->type = FI_EP_MSG;
    if (hints->domain_attr) hints->domain_attr->mr_mode = -1 & ~(FI_MR_BASIC | FI_MR_SCALABLE);
    result = fi_getinfo(FI_VERSION(1, 18), nullptr, nullptr, 0, hints, &list);
    fi_freeinfo(hints);
  }
  ~Infos() { fi_freeinfo(list); }
  std::vector<const fi_info*> all() const {
    std::vector<const fi_info*> infos;
    for (const fi_info* info = list; info != nullptr; info = info->next) infos.push_back(info);
    return infos;
  }
};

const sockaddr_ib& native(const void* address) {
  return *static_cast<const sockaddr_ib*>(address);
}

sockaddr_ib name_of(fid_t fid) {
  sockaddr_ib name{};
  size_t size = sizeof name;
  EXPECT_EQ(fi_getname(fid, &name, &size), 0);
  EXPECT_EQ(size, sizeof name);
  return name;
}

uint16_t port_of(const sockaddr_ib& name) {
  return static_cast<uint16_t>(be64toh(name.sib_sid));
}

}  // namespace

class FaultsNative : public WithoutDevices {
 protected:
  void SetUp() override {
    WithoutDevices::SetUp();
    use_infiniband({0xffff});
  }
  static void use_infiniband(const std::vector<uint16_t>& pkeys) {
    fake::retire_devices();
    fake::DeviceConfig device;
    device.infiniband = true;
    device.pkeys = pkeys;
    fake::add_device(device);
  }
};

TEST_F(FaultsNative, EachGidInEachPartitionIsOffered) {
  use_infiniband({0xffff, 0x8123});
  const Infos infos(FI_SOCKADDR_IB);
  ASSERT_EQ(infos.result, 0);
  ASSERT_EQ(infos.all().size(), 2u) << "one GID, two partitions";
  for (const fi_info* info : infos.all()) {
    EXPECT_EQ(info->addr_format, static_cast<uint32_t>(FI_SOCKADDR_IB));
    ASSERT_EQ(info->src_addrlen, sizeof(sockaddr_ib));
    EXPECT_EQ(native(info->src_addr).sib_family, AF_IB);
    EXPECT_EQ(info->ep_attr->protocol, static_cast<uint32_t>(FI_PROTO_RDMA_CM_IB_RC));
    EXPECT_STREQ(info->nic->link_attr->network_type, "InfiniBand");
  }
  EXPECT_EQ(native(infos.all()[0]->src_addr).sib_pkey, htobe16(0xffff));
  EXPECT_EQ(native(infos.all()[1]->src_addr).sib_pkey, htobe16(0x8123));
}

TEST_F(FaultsNative, OfferedOnlyOnRequest) {
  for (const uint32_t format : {uint32_t{FI_FORMAT_UNSPEC}, uint32_t{FI_SOCKADDR_IP}, uint32_t{FI_SOCKADDR_IN}}) {
    const Infos infos(format);
    ASSERT_EQ(infos.result, 0);
    for (const fi_info* info : infos.all()) EXPECT_NE(native(info->src_addr).sib_family, AF_IB);
  }
  const Infos any(FI_SOCKADDR);
  ASSERT_EQ(any.result, 0);
  const fi_info* last = any.all().back();
  EXPECT_EQ(native(last->src_addr).sib_family, AF_IB) << "after the IP addresses";
  EXPECT_NE(native(any.list->src_addr).sib_family, AF_IB);
}

TEST_F(FaultsNative, NamedInterfacesExcludeThem) {
  const Parameter interface("FI_VERBS_IFACE", "lo");
  EXPECT_EQ(Infos(FI_SOCKADDR_IB).result, -FI_ENODATA);
  EXPECT_EQ(Infos(FI_SOCKADDR_IN).result, 0);
}

TEST_F(FaultsNative, AnswerIsAGoodHint) {
  const Infos first(FI_SOCKADDR_IB);
  ASSERT_EQ(first.result, 0);
  const Infos again(FI_SOCKADDR_IB, first.list);
  ASSERT_EQ(again.result, 0);
  EXPECT_EQ(again.all().size(), 1u);
  EXPECT_EQ(std::memcmp(again.list->src_addr, first.list->src_addr, sizeof(sockaddr_ib)), 0);
}

TEST_F(FaultsNative, WithoutInfinibandTheLogGivesTheReason) {
  fake::retire_devices();  // the default device is Ethernet
  LogCapture log;
  EXPECT_EQ(Infos(FI_SOCKADDR_IB).result, -FI_ENODATA);
  EXPECT_NE(log.text().find("FI_SOCKADDR_IB, which only InfiniBand has"), std::string::npos) << log.text();
}

TEST_F(FaultsNative, ConnectionHasNamesAndPrivateDataAtBothEnds) {
  ends::TwoEnds both({.native = true});
  ASSERT_TRUE(both.open() && both.connect());
  ASSERT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); }));
  EXPECT_EQ(both.request_data, "hello") << "without the header in front";
  EXPECT_EQ(both.client.data, "welcome");
  EXPECT_EQ(both.server.data, "");

  const sockaddr_ib listener = name_of(&both.listener->fid), client = name_of(&both.client.ep->fid);
  EXPECT_NE(port_of(listener), 0);
  EXPECT_NE(port_of(client), 0);
  sockaddr_ib peer{};
  size_t size = sizeof peer;
  ASSERT_EQ(fi_getpeer(both.client.ep, &peer, &size), 0);
  EXPECT_EQ(std::memcmp(&peer.sib_addr, &listener.sib_addr, sizeof peer.sib_addr), 0);
  EXPECT_EQ(peer.sib_sid, listener.sib_sid);
  ASSERT_EQ(fi_getpeer(both.server.ep, &peer, &size), 0);
  EXPECT_EQ(std::memcmp(&peer.sib_addr, &client.sib_addr, sizeof peer.sib_addr), 0);
  EXPECT_EQ(port_of(peer), port_of(client)) << "the port comes from the request's header";
  size = 10;
  EXPECT_EQ(fi_getname(&both.client.ep->fid, &peer, &size), -FI_ETOOSMALL);
  EXPECT_EQ(size, sizeof peer);

  both.transfer();
  fi_shutdown(both.client.ep, 0);
  both.expect_ended();
  both.close();
  EXPECT_EQ(both.verdict(), "");
}

TEST_F(FaultsNative, RejectionCarriesItsData) {
  ends::TwoEnds both({.server_rejects = true, .native = true});
  ASSERT_TRUE(both.open() && both.connect());
  ASSERT_TRUE(both.wait([&] { return both.client.terminals > 0; }));
  EXPECT_EQ(both.client.error, FI_ECONNREFUSED);
  EXPECT_EQ(both.client.data, "no");
  EXPECT_NE(both.client.sentence.find("[ib:fe80::"), std::string::npos) << both.client.sentence;
  both.close();
  EXPECT_EQ(both.verdict(), "");
}

TEST_F(FaultsNative, NamesOfAnotherKindAreRefused) {
  ends::TwoEnds both({.native = true});
  ASSERT_TRUE(both.open());
  sockaddr_in ip{};
  ip.sin_family = AF_INET;
  fid_pep* listener = nullptr;
  ASSERT_EQ(fi_passive_ep(both.fabric, both.info, &listener, nullptr), 0);
  EXPECT_EQ(fi_setname(&listener->fid, &ip, sizeof ip), -FI_EINVAL);
  sockaddr_ib wanted = native(both.info->src_addr);
  wanted.sib_sid = htobe64(uint64_t{RDMA_PS_IB} << 16 | 4711);
  wanted.sib_sid_mask = htobe64(UINT64_MAX);
  EXPECT_EQ(fi_setname(&listener->fid, &wanted, sizeof wanted), 0);
  EXPECT_EQ(port_of(name_of(&listener->fid)), 4711);
  EXPECT_EQ(fi_close(&listener->fid), 0);
}

}  // namespace faults_native_test
