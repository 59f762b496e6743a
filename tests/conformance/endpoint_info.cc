// SPDX-License-Identifier: BSD-2-Clause
// An info that says more than the answer of fi_getinfo: endpoints and contexts are not opened beyond the provider's
// limits; and fi_enable after a failure; fi_endpoint(3). The destination in an info; fi_getinfo(3).
#include <rdma/fi_endpoint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "fixture/fabric.h"
#include "fixture/member.h"
#include "fixture/node.h"
#include "fixture/scalable_end.h"

namespace endpoint_info {

CONFORMANCE_TOPIC(EndpointInfo);

namespace {

constexpr uint64_t kUnknownBit = uint64_t{1} << 42;

struct Change {
  const char* field;
  std::function<void(fi_info& info)> make;
};

// More than any provider has.
const std::vector<Change> kImpossible{
    {"caps", [](fi_info& info) { info.caps |= kUnknownBit; }},
    {"tx_attr->caps", [](fi_info& info) { info.tx_attr->caps |= kUnknownBit; }},
    {"tx_attr->op_flags", [](fi_info& info) { info.tx_attr->op_flags |= FI_MULTI_RECV; }},
    {"tx_attr->msg_order", [](fi_info& info) { info.tx_attr->msg_order |= FI_ORDER_SAR; }},
    {"tx_attr->comp_order", [](fi_info& info) { info.tx_attr->comp_order |= FI_ORDER_DATA; }},
    {"tx_attr->inject_size", [](fi_info& info) { info.tx_attr->inject_size += size_t{1} << 40; }},
    {"tx_attr->size", [](fi_info& info) { info.tx_attr->size = SIZE_MAX / 2; }},
    {"tx_attr->iov_limit", [](fi_info& info) { info.tx_attr->iov_limit += 1000; }},
    {"tx_attr->rma_iov_limit", [](fi_info& info) { info.tx_attr->rma_iov_limit += 1000; }},
    {"rx_attr->caps", [](fi_info& info) { info.rx_attr->caps |= kUnknownBit; }},
    {"rx_attr->op_flags", [](fi_info& info) { info.rx_attr->op_flags |= FI_INJECT; }},
    {"rx_attr->msg_order", [](fi_info& info) { info.rx_attr->msg_order |= FI_ORDER_SAR; }},
    {"rx_attr->comp_order", [](fi_info& info) { info.rx_attr->comp_order |= FI_ORDER_DATA; }},
    {"rx_attr->size", [](fi_info& info) { info.rx_attr->size = SIZE_MAX / 2; }},
    {"rx_attr->iov_limit", [](fi_info& info) { info.rx_attr->iov_limit += 1000; }},
    {"ep_attr->protocol", [](fi_info& info) { info.ep_attr->protocol = 0x7fff0000; }},
    {"ep_attr->protocol_version", [](fi_info& info) { info.ep_attr->protocol_version += 1000; }},
    {"ep_attr->auth_key_size", [](fi_info& info) { info.ep_attr->auth_key_size = 1 << 20; }},
};

// Less, or nothing at all: programs build an info of their own, or set what they do not use to 0.
const std::vector<Change> kPossible{
    {"caps", [](fi_info& info) { info.caps = FI_MSG; }},
    {"op_flags", [](fi_info& info) { info.tx_attr->op_flags = FI_COMPLETION; }},
    {"msg_order", [](fi_info& info) { info.tx_attr->msg_order = info.rx_attr->msg_order = 0; }},
    {"comp_order", [](fi_info& info) { info.tx_attr->comp_order = info.rx_attr->comp_order = 0; }},
    {"inject_size", [](fi_info& info) { info.tx_attr->inject_size = 0; }},
    {"size", [](fi_info& info) { info.tx_attr->size = info.rx_attr->size = 0; }},
    {"iov_limit", [](fi_info& info) { info.tx_attr->iov_limit = info.rx_attr->iov_limit = 1; }},
    {"protocol", [](fi_info& info) { info.ep_attr->protocol = FI_PROTO_UNSPEC; }},
    {"max_msg_size", [](fi_info& info) { info.ep_attr->max_msg_size = 1; }},
    {"names",
     [](fi_info& info) {
       free(info.domain_attr->name);
       info.domain_attr->name = nullptr;
     }},
};

using Open = std::function<int(fi_info& info)>;

void expect_limits(const Fabric& fabric, const Open& open) {
  EXPECT_EQ(open(*fabric.info()), 0);
  for (const Change& change : kImpossible) {
    const InfoPtr info = fabric.duplicate_info();
    change.make(*info);
    EXPECT_EQ(open(*info), -FI_ENODATA) << change.field;
  }
  for (const Change& change : kPossible) {
    const InfoPtr info = fabric.duplicate_info();
    change.make(*info);
    EXPECT_EQ(open(*info), 0) << change.field;
  }
}

template <class Fid, class Call>
int open_and_close(Call call) {
  Fid* fid = nullptr;
  const int error = call(&fid);
  EXPECT_EQ(error == 0, fid != nullptr);
  if (fid != nullptr) {
    EXPECT_EQ(fi_close(&fid->fid), 0);
  }
  return error;
}

std::atomic<bool> listen_fails{false};  // the next call

}  // namespace

// The library's calls resolve to this function.
extern "C" __attribute__((visibility("default"))) int listen(int fd, int backlog) noexcept {
  if (listen_fails.exchange(false)) {
    errno = EADDRINUSE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_listen, fd, backlog));
}

TEST_P(EndpointInfo, EndpointsAreNotOpenedBeyondTheLimits) {
  Fabric fabric(target());
  expect_limits(fabric, [&](fi_info& info) {
    return open_and_close<fid_ep>([&](fid_ep** ep) { return fi_endpoint(fabric.domain(), &info, ep, nullptr); });
  });
  expect_limits(fabric, [&](fi_info& info) {
    return open_and_close<fid_ep>([&](fid_ep** ep) { return fi_endpoint2(fabric.domain(), &info, ep, 0, nullptr); });
  });
}

TEST_P(EndpointInfo, PassiveEndpointsAreNotOpenedBeyondTheLimits) {
  if (!target().connected()) GTEST_SKIP() << "no passive endpoints";
  if (!speaks_tcp()) GTEST_SKIP() << "a listener serves every device";
  Fabric fabric(target());
  expect_limits(fabric, [&](fi_info& info) {
    return open_and_close<fid_pep>([&](fid_pep** pep) { return fi_passive_ep(fabric.fabric(), &info, pep, nullptr); });
  });
}

TEST_P(EndpointInfo, SendQueueSizeIsAnOptionUntilTheEndpointIsEnabled) {
  Fabric fabric(target());
  size_t size = 0, length = sizeof size;
  const auto get = [&](fid_t fid) { return fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &size, &length); };
  const auto set = [&](fid_t fid) { return fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &size, sizeof size); };
  fid_ep* opened = nullptr;
  ASSERT_EQ(fi_endpoint(fabric.domain(), fabric.info(), &opened, nullptr), 0);
  const Handle<fid_ep> ep(opened);
  ASSERT_EQ(get(&ep->fid), 0);
  EXPECT_GT(size, 0u);
  size = 16;
  EXPECT_EQ(set(&ep->fid), 0);
  size = 0;
  EXPECT_EQ(get(&ep->fid), 0);
  EXPECT_EQ(size, 16u);
  size = 0;
  EXPECT_EQ(set(&ep->fid), -FI_EINVAL);
  Pair pair(fabric);
  size = 32;
  EXPECT_EQ(set(pair.a().fid()), -FI_EOPBADSTATE);
}

TEST_P(EndpointInfo, AnEndpointThatCouldNotBeEnabledMayBeEnabledLater) {
  RELIABLE_DATAGRAMS_ONLY();
  if (target().provider.starts_with("verbs")) GTEST_SKIP() << "no socket listens";
  Fabric fabric(target());
  DatagramEnd friend_(fabric);
  NodeOptions options;
  options.configure = [](fid_ep*) { listen_fails = true; };
  const Handle<fid_av> av = opened<fid_av>("fi_av_open", [&](fid_av** v) {
    fi_av_attr attr{};
    return fi_av_open(fabric.domain(), &attr, v, nullptr);
  });
  Node node(fabric, options);
  require_ok(fi_ep_bind(node.ep(), &av->fid, 0), "fi_ep_bind");
  EXPECT_EQ(fi_enable(node.ep()), -FI_EADDRINUSE);
  ASSERT_EQ(fi_enable(node.ep()), 0);
  friend_->peer = friend_.insert(Address::local_name(node.fid()));
  expect_round_trip(*friend_, node);
}

TEST_P(EndpointInfo, ScalableEndpointsAndContextsAreNotOpenedBeyondTheLimits) {
  if (target().ep_type != FI_EP_RDM) GTEST_SKIP() << "scalable endpoints are reliable datagrams";
  NEEDS(with_contexts(2, 2), "scalable endpoints");
  Fabric fabric(target(), with_contexts(2, 2));
  expect_limits(fabric, [&](fi_info& info) {
    return open_and_close<fid_ep>([&](fid_ep** sep) { return fi_scalable_ep(fabric.domain(), &info, sep, nullptr); });
  });
  ScalableEnd end(fabric, 2, 0);
  fi_tx_attr tx = *fabric.info()->tx_attr;
  fi_rx_attr rx = *fabric.info()->rx_attr;
  const auto open_tx = [&] {
    return open_and_close<fid_ep>([&](fid_ep** ep) { return fi_tx_context(end.sep(), 0, &tx, ep, nullptr); });
  };
  const auto open_rx = [&] {
    return open_and_close<fid_ep>([&](fid_ep** ep) { return fi_rx_context(end.sep(), 0, &rx, ep, nullptr); });
  };
  EXPECT_EQ(open_tx(), 0);
  EXPECT_EQ(open_rx(), 0);
  tx.inject_size += size_t{1} << 40;
  rx.iov_limit += 1000;
  EXPECT_EQ(open_tx(), -FI_ENODATA);
  EXPECT_EQ(open_rx(), -FI_ENODATA);
}

// The domain names the interface, so the source is its address.
TEST_P(EndpointInfo, AnySourceOfANamedDomainKeepsTheDestination) {
  if (target().provider.starts_with("verbs")) GTEST_SKIP() << "each device has addresses of its own";
  Fabric fabric(target());
  const Address here = Address::numeric(target().address, 0);
  const Address any = Address::numeric(here.storage.ss_family == AF_INET ? "0.0.0.0" : "::", 0);
  const InfoPtr hints = hints_for(target(), [&](fi_info& h) {
    free(h.domain_attr->name);
    h.domain_attr->name = strdup(fabric.info()->domain_attr->name);
    h.src_addr = malloc(any.size);
    std::memcpy(h.src_addr, any.get(), any.size);
    h.src_addrlen = any.size;
  });
  fi_info* list = nullptr;
  ASSERT_EQ(fi_getinfo(api_version(), target().address.c_str(), "7471", 0, hints.get(), &list), 0);
  const InfoPtr answer(list);
  ASSERT_NE(answer->dest_addr, nullptr);
  EXPECT_EQ(Address::copied(answer->dest_addr, answer->dest_addrlen), Address::numeric(target().address, 7471));
}

}  // namespace endpoint_info
