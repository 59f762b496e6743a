// SPDX-License-Identifier: BSD-2-Clause
// The offers of fi_getinfo(3) on devices of different kinds and sizes: limits come from the device, iWARP is
// recognised, filters select devices, and no route is resolved before a connection attempt.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include <set>

#include "conformance/fixture/parameter.h"
#include "fake_iwarp.h"
#include "fake_rdma.h"
#include "log_capture.h"
#include "without_devices.h"

namespace faults_offers_test {

namespace {

struct Offers {
  fi_info* list = nullptr;
  int result;

  explicit Offers(const char* node = nullptr, uint64_t flags = 0, fi_ep_type type = FI_EP_MSG, uint64_t mode = 0,
                  const char* service = nullptr) {
    fi_info* hints = fi_allocinfo();
    hints->ep_attr->type = type;
    hints->mode = mode;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("verbs");
    result = fi_getinfo(FI_VERSION(1, 18), node, service, flags, hints, &list);
    fi_freeinfo(hints);
  }
  ~Offers() { fi_freeinfo(list); }
  std::set<std::string> domains() const {
    std::set<std::string> names;
    for (const fi_info* info = list; info != nullptr; info = info->next) names.insert(info->domain_attr->name);
    return names;
  }
  std::set<std::string> sources() const {
    std::set<std::string> hosts;
    for (const fi_info* info = list; info != nullptr; info = info->next)
      if (info->src_addr != nullptr) hosts.insert(inet_ntoa(static_cast<const sockaddr_in*>(info->src_addr)->sin_addr));
    return hosts;
  }
};

// A device of that name with loopback addresses, which every host has.
fake::DeviceConfig device(const std::string& name, const std::vector<std::string>& addresses) {
  fake::DeviceConfig config;
  config.name = name;
  config.addresses = addresses;
  return config;
}

}  // namespace

class FaultsOffers : public WithoutDevices {};

TEST_F(FaultsOffers, LimitsAreThoseOfTheDevice) {
  fake::DeviceConfig config = device("small", {"127.0.0.1"});
  config.max_qp = 77;
  config.max_cq = 88;
  config.max_mr = 99;
  config.max_srq = 11;
  config.max_qp_wr = 40;
  config.max_sge = 3;
  config.max_inline = 16;
  config.max_msg_size = 1 << 20;
  config.atomic_cap = IBV_ATOMIC_NONE;
  fake::add_device(config);
  const Offers offers;
  ASSERT_EQ(offers.result, 0);
  const fi_info& info = *offers.list;
  EXPECT_EQ(info.domain_attr->ep_cnt, 77u);
  EXPECT_EQ(info.domain_attr->cq_cnt, 88u);
  EXPECT_EQ(info.domain_attr->mr_cnt, 99u);
  EXPECT_EQ(info.domain_attr->max_ep_srx_ctx, 11u);
  EXPECT_EQ(info.tx_attr->size, 40u);
  EXPECT_EQ(info.rx_attr->size, 40u);
  EXPECT_EQ(info.tx_attr->iov_limit, 3u);
  EXPECT_EQ(info.tx_attr->inject_size, 16u);
  EXPECT_EQ(info.ep_attr->max_msg_size, size_t{1} << 20);
  EXPECT_EQ(info.caps & FI_ATOMIC, 0u) << "no atomics that the device lacks";
}

// As hfi1 and qib are.
TEST_F(FaultsOffers, InlineBytesAreThoseOfTheQueuePairThatTheDeviceMade) {
  fake::DeviceConfig config = device("none", {"127.0.0.1"});
  config.max_inline = 0;
  config.accepts_any_inline = true;
  fake::add_device(config);
  const Offers offers;
  ASSERT_EQ(offers.result, 0);
  EXPECT_EQ(offers.list->tx_attr->inject_size, 0u);
}

TEST_F(FaultsOffers, InlineBytesAreFoundOnceThereIsMemory) {
  for (const char* call : {"ibv_alloc_pd", "ibv_create_cq"}) {
    fake::add_device(device(call, {"127.0.0.1"}));
    fake::fail(call, 1, ENOMEM);
    {
      const Offers without_memory;
      ASSERT_EQ(without_memory.result, 0);
      EXPECT_TRUE(fake::failure_happened());
    }
    fake::reset();
    const Offers offers;
    ASSERT_EQ(offers.result, 0);
    EXPECT_EQ(offers.list->tx_attr->inject_size, 64u) << call;
    fake::retire_devices();
  }
}

TEST_F(FaultsOffers, DatagramSizeIsThePathMtu) {
  fake::DeviceConfig config = device("small", {"127.0.0.1"});
  config.mtu = IBV_MTU_2048;
  fake::add_device(config);
  const Offers offers(nullptr, 0, FI_EP_DGRAM);
  ASSERT_EQ(offers.result, 0);
  EXPECT_EQ(offers.list->ep_attr->max_msg_size, 2048u);
  EXPECT_NE(offers.list->caps & FI_MULTICAST, 0u);
}

TEST_F(FaultsOffers, DeviceWithoutGroupsOffersNone) {
  fake::DeviceConfig config = device("small", {"127.0.0.1"});
  config.max_groups = 0;
  fake::add_device(config);
  const Offers offers(nullptr, 0, FI_EP_DGRAM);
  ASSERT_EQ(offers.result, 0);
  EXPECT_EQ(offers.list->caps & FI_MULTICAST, 0u);
}

TEST_F(FaultsOffers, IwarpIsRecognised) {
  fake::DeviceConfig config = fake::iwarp_device();
  config.name = "warp";
  config.addresses = {"127.0.0.1"};
  fake::add_device(config);
  const Offers offers(nullptr, 0, FI_EP_MSG, FI_RX_CQ_DATA);
  ASSERT_EQ(offers.result, 0);
  EXPECT_EQ(offers.list->ep_attr->protocol, static_cast<uint32_t>(FI_PROTO_IWARP));
  EXPECT_STREQ(offers.list->fabric_attr->name, "Ethernet-iWARP");
  EXPECT_EQ(offers.list->domain_attr->cq_data_size, 0u) << "iWARP has no immediate data";
  EXPECT_EQ(Offers(nullptr, 0, FI_EP_DGRAM).result, -FI_ENODATA) << "and no datagrams";
}

TEST_F(FaultsOffers, FiltersSelectDevices) {
  fake::add_device(device("one", {"127.0.0.1"}));
  fake::add_device(device("two", {"127.0.0.2"}));
  fake::add_device(device("other", {"::1"}));
  EXPECT_EQ(Offers().domains(), std::set<std::string>{"one"}) << "127.0.0.2 is no address of an interface";
  {
    const Parameter devices("FI_VERBS_DEVICE_NAME", "tw,oth");
    EXPECT_EQ(Offers().result, -FI_ENODATA);
  }
  {
    const Parameter devices("FI_VERBS_DEVICE_NAME", "none,on");
    EXPECT_EQ(Offers().domains(), std::set<std::string>{"one"}) << "a prefix";
  }
  {
    const Parameter interface("FI_VERBS_IFACE", "eth99,l");
    EXPECT_EQ(Offers().domains(), std::set<std::string>{"one"});
  }
  {
    const Parameter index("FI_VERBS_GID_IDX", "1");
    EXPECT_EQ(Offers().domains(), std::set<std::string>{"one"}) << "the first entry is link-local";
  }
  const Parameter index("FI_VERBS_GID_IDX", "2");
  EXPECT_EQ(Offers().result, -FI_ENODATA);
}

TEST_F(FaultsOffers, APortOffersItsAddressesIndependentlyOfOtherPorts) {
  fake::DeviceConfig config = device("both", {"::1"});
  config.second = {"127.0.0.1"};
  fake::add_device(config);
  using Set = std::set<std::string>;
  EXPECT_EQ(Offers().sources(), Set{"127.0.0.1"});
  fake::set_port_state("both", IBV_PORT_DOWN, 1);
  EXPECT_EQ(Offers("127.0.0.1", FI_SOURCE).sources(), Set{"127.0.0.1"});
  fake::set_port_state("both", IBV_PORT_ACTIVE, 1);
  fake::set_port_state("both", IBV_PORT_DOWN, 2);
  EXPECT_EQ(Offers().result, -FI_ENODATA);
}

TEST_F(FaultsOffers, NoRouteIsResolvedBeforeAConnect) {
  fake::add_device(device("one", {"127.0.0.1"}));
  const Offers offers("127.0.0.1", 0, FI_EP_MSG, 0, "4711");
  ASSERT_EQ(offers.result, 0);
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_ep* ep = nullptr;
  ASSERT_EQ(fi_fabric(offers.list->fabric_attr, &fabric, nullptr), 0);
  ASSERT_EQ(fi_domain(fabric, offers.list, &domain, nullptr), 0);
  ASSERT_EQ(fi_endpoint(domain, offers.list, &ep, nullptr), 0);
  const auto calls = fake::calls();
  EXPECT_EQ(calls.count("rdma_resolve_addr"), 0u);
  EXPECT_EQ(calls.count("rdma_resolve_route"), 0u);
  EXPECT_EQ(calls.count("rdma_getaddrinfo"), 0u);
  EXPECT_EQ(fi_close(&ep->fid), 0);
  EXPECT_EQ(fi_close(&domain->fid), 0);
  EXPECT_EQ(fi_close(&fabric->fid), 0);
}

// librdmacm then reports no device and no error of its own.
TEST_F(FaultsOffers, LackOfDescriptorsIsReportedAsSuch) {
  fake::add_device(device("one", {"127.0.0.1"}));
  ASSERT_EQ(Offers().result, 0);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  for (const unsigned free : {0u, 2u}) {
    const rlimit few{static_cast<rlim_t>(next) + free, limit.rlim_max};
    fake::fail("rdma_get_devices", 1, ENODEV);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const int result = Offers().result;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(result, -FI_EMFILE) << free << " free";
  }
  fake::fail("rdma_get_devices", 1, ENODEV);
  EXPECT_EQ(Offers().result, -FI_ENODATA) << "without a device there is nothing to offer";
}

// A registration beyond the limit of locked memory fails with an error that names the limit.
TEST_F(FaultsOffers, RefusedMemoryLockNamesTheLimit) {
  fake::DeviceConfig config = device("one", {"127.0.0.1"});
  config.lockable_bytes = 64 * 1024;
  fake::add_device(config);
  const Offers offers;
  ASSERT_EQ(offers.result, 0);
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  ASSERT_EQ(fi_fabric(offers.list->fabric_attr, &fabric, nullptr), 0);
  ASSERT_EQ(fi_domain(fabric, offers.list, &domain, nullptr), 0);
  std::vector<char> memory(1 << 20);
  fid_mr* region = nullptr;
  const LogCapture log;
  EXPECT_EQ(fi_mr_reg(domain, memory.data(), memory.size(), FI_SEND, 0, 0, 0, &region, nullptr), -FI_ENOMEM);
  EXPECT_EQ(region, nullptr);
  EXPECT_TRUE(log.has("cannot register 1048576 bytes")) << log.text();
  EXPECT_TRUE(log.has("see ulimit -l")) << log.text();
  EXPECT_TRUE(log.has("RLIMIT_MEMLOCK is ")) << log.text();
  EXPECT_EQ(fi_close(&domain->fid), 0);
  EXPECT_EQ(fi_close(&fabric->fid), 0);
}

}  // namespace faults_offers_test
