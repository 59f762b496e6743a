// SPDX-License-Identifier: BSD-2-Clause
// Memory of accelerators, FI_HMEM: offered where the device registers DMA buffers, and moved by the device alone. The
// accelerator is a memfd: its addresses in this process are without access, so any touch by the processor ends the
// test. fi_mr(3), fi_getinfo(3).
#include <gtest/gtest.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "fake_rdma.h"
#include "log_capture.h"
#include "without_devices.h"

namespace faults_device_memory_test {

namespace {

constexpr uint32_t kVersion = FI_VERSION(1, 20);
constexpr int kMode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM;
constexpr size_t kSize = size_t{1} << 20;

// A buffer with an address that only the device can use, and a view of its bytes for the test.
class Accelerator {
 public:
  Accelerator() {
    EXPECT_EQ(::ftruncate(descriptor_, kSize), 0);
    view_ = static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0));
    address_ = static_cast<char*>(::mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void*>(view_), MAP_FAILED);
    EXPECT_NE(static_cast<void*>(address_), MAP_FAILED);
  }
  ~Accelerator() {
    ::munmap(address_, kSize);
    ::munmap(view_, kSize);
    ::close(descriptor_);
  }
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  int add_to(fid_domain* domain, uint64_t access, fid_mr** region) const {
    const fi_mr_dmabuf buffer{descriptor_, 0, kSize, address_};
    fi_mr_attr attr{};
    attr.dmabuf = &buffer;
    attr.iov_count = 1;
    attr.access = access;
    attr.iface = FI_HMEM_CUDA;
    return fi_mr_regattr(domain, &attr, FI_MR_DMABUF, region);
  }
  char* address() const { return address_; }
  char* view() const { return view_; }

 private:
  const int descriptor_ = ::memfd_create("accelerator", MFD_CLOEXEC);
  char* view_ = nullptr;
  char* address_ = nullptr;
};

struct Request {
  const char* program;
  uint32_t version;
  uint64_t caps;
  int mr_mode;
  uint64_t order;
};

// The hints of programs for memory of accelerators.
const Request kRequests[] = {
    {"NCCL's plug-in, messages", FI_VERSION(1, 20), FI_LOCAL_COMM | FI_REMOTE_COMM | FI_TAGGED | FI_MSG | FI_HMEM,
     kMode | FI_MR_ENDPOINT, FI_ORDER_SAS},
    {"NCCL's plug-in, writes", FI_VERSION(1, 20), FI_LOCAL_COMM | FI_REMOTE_COMM | FI_MSG | FI_RMA | FI_HMEM,
     kMode | FI_MR_ENDPOINT, 0},
    {"NIXL", FI_VERSION(1, 18), FI_MSG | FI_RMA | FI_HMEM | FI_LOCAL_COMM | FI_REMOTE_COMM, kMode, 0},
    {"Open MPI, messages", FI_VERSION(1, 14), FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV | FI_HMEM,
     FI_MR_ALLOCATED | FI_MR_ENDPOINT | FI_MR_HMEM, FI_ORDER_SAS},
    {"Open MPI, accesses", FI_VERSION(1, 14), FI_RMA | FI_ATOMIC | FI_HMEM | FI_LOCAL_COMM | FI_REMOTE_COMM, kMode, 0}};

int ask(const Request& request, fi_ep_type type, const char* provider, fi_info** list) {
  fi_info* hints = fi_allocinfo();
  hints->caps = request.caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = type;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->domain_attr->mr_mode = request.mr_mode;
  hints->tx_attr->msg_order = hints->rx_attr->msg_order = request.order;
  hints->fabric_attr->prov_name = strdup(provider);
  const int result = fi_getinfo(request.version, nullptr, nullptr, 0, hints, list);
  fi_freeinfo(hints);
  return result;
}

// A reliable endpoint that talks to itself.
class Endpoint {
 public:
  bool open(uint64_t more_caps) {
    const Request request{"", kVersion, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | more_caps, kMode, 0};
    int error = ask(request, FI_EP_RDM, "verbs;ofi_rxm", &info_);
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_TAGGED;
    fi_av_attr av{};
    if (error == 0) error = fi_fabric(info_->fabric_attr, &fabric_, nullptr);
    if (error == 0) error = fi_domain(fabric_, info_, &domain, nullptr);
    if (error == 0) error = fi_cq_open(domain, &cq, &cq_, nullptr);
    if (error == 0) error = fi_av_open(domain, &av, &av_, nullptr);
    if (error == 0) error = fi_endpoint(domain, info_, &ep, nullptr);
    if (error == 0) error = fi_ep_bind(ep, &cq_->fid, FI_TRANSMIT | FI_RECV);
    if (error == 0) error = fi_ep_bind(ep, &av_->fid, 0);
    if (error == 0) error = fi_enable(ep);
    char name[64];
    size_t len = sizeof name;
    return error == 0 && fi_getname(&ep->fid, name, &len) == 0 && fi_av_insert(av_, name, 1, &self, 0, nullptr) == 1;
  }
  ~Endpoint() {
    for (fid* object : {ep ? &ep->fid : nullptr, av_ ? &av_->fid : nullptr, cq_ ? &cq_->fid : nullptr,
                        domain ? &domain->fid : nullptr, fabric_ ? &fabric_->fid : nullptr})
      EXPECT_TRUE(object == nullptr || fi_close(object) == 0);
    fi_freeinfo(info_);
  }
  // The outcome of the operation, within 10 s: 0 or a positive error; -1: none.
  int outcome(const void* context) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (outcomes_.count(context) == 0) {
      fi_cq_tagged_entry entry;
      const ssize_t got = fi_cq_read(cq_, &entry, 1);
      fi_cq_err_entry error{};
      if (got == 1) outcomes_[entry.op_context] = 0;
      if (got == -FI_EAVAIL && fi_cq_readerr(cq_, &error, 0) == 1) outcomes_[error.op_context] = error.err;
      if (std::chrono::steady_clock::now() > until) return -1;
    }
    const int result = outcomes_[context];
    outcomes_.erase(context);
    return result;
  }
  template <class Call>
  ssize_t retry(Call call) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ssize_t result;
    while ((result = call()) == -FI_EAGAIN && std::chrono::steady_clock::now() < until) fi_cq_read(cq_, nullptr, 0);
    return result;
  }
  // A message from `out` to `in`: the outcomes of the two.
  std::pair<int, int> exchange(const char* out, char* in, size_t len) {
    if (fi_trecv(ep, in, kSize, nullptr, FI_ADDR_UNSPEC, 1, 0, &received_) != 0) return {-2, -2};
    if (retry([&] { return fi_tsend(ep, out, len, nullptr, self, 1, &sent_); }) != 0) return {-3, -3};
    const int received = outcome(&received_);
    return {received, outcome(&sent_)};
  }

  fid_domain* domain = nullptr;
  fid_ep* ep = nullptr;
  fi_addr_t self = FI_ADDR_NOTAVAIL;

 private:
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_av* av_ = nullptr;
  std::map<const void*, int> outcomes_;
  fi_context2 sent_{}, received_{};
};

void fill(char* memory, size_t len, unsigned seed) {
  for (size_t i = 0; i < len; ++i) memory[i] = static_cast<char>(i * 7 + seed * 31);
}

constexpr std::pair<int, int> kMoved{0, 0};

class FaultsDeviceMemory : public WithoutDevices {
 protected:
  static void add_device(bool takes_dmabufs) {
    fake::DeviceConfig config;
    config.name = "fabric0";
    config.addresses = {"127.0.0.1"};
    config.takes_dmabufs = takes_dmabufs;
    fake::add_device(config);
  }
};

}  // namespace

TEST_F(FaultsDeviceMemory, RequestsOfProgramsAreAnsweredWhereTheDeviceTakesDmabufs) {
  add_device(true);
  for (const Request& request : kRequests) {
    fi_info* list = nullptr;
    ASSERT_EQ(ask(request, FI_EP_RDM, "verbs;ofi_rxm", &list), 0) << request.program;
    EXPECT_NE(list->caps & FI_HMEM, 0U) << request.program;
    EXPECT_NE(list->domain_attr->mr_mode & FI_MR_HMEM, 0) << request.program;
    fi_freeinfo(list);
  }
  Request request = kRequests[2];
  fi_info* list = nullptr;
  ASSERT_EQ(ask(request, FI_EP_MSG, "verbs", &list), 0);
  EXPECT_NE(list->tx_attr->caps & FI_HMEM, 0U);
  EXPECT_NE(list->rx_attr->caps & FI_HMEM, 0U);
  EXPECT_EQ(list->tx_attr->inject_size, 0U) << "the processor would copy";
  fi_freeinfo(list);
  request.mr_mode &= ~FI_MR_HMEM;
  EXPECT_EQ(ask(request, FI_EP_MSG, "verbs", &list), -FI_ENODATA);
  request.caps &= ~FI_HMEM;
  ASSERT_EQ(ask(request, FI_EP_MSG, "verbs", &list), 0);
  EXPECT_EQ(list->caps & FI_HMEM, 0U) << "nobody requested it";
  EXPECT_NE(list->tx_attr->inject_size, 0U);
  fi_freeinfo(list);
}

TEST_F(FaultsDeviceMemory, RequestsAreRefusedElsewhereWithTheReason) {
  add_device(false);
  for (const Request& request : kRequests)
    for (const bool reliable : {false, true}) {
      LogCapture log;
      fi_info* list = nullptr;
      EXPECT_EQ(ask(request, reliable ? FI_EP_RDM : FI_EP_MSG, reliable ? "verbs;ofi_rxm" : "verbs", &list),
                -FI_ENODATA);
      EXPECT_TRUE(log.has("fabric0, its driver or the kernel registers no DMA buffers: no FI_HMEM")) << log.text();
    }
}

TEST_F(FaultsDeviceMemory, InterfacesOfAcceleratorsNeedTheCapability) {
  add_device(true);
  for (const bool granted : {false, true}) {
    Endpoint endpoint;
    ASSERT_TRUE(endpoint.open(granted ? FI_HMEM : 0));
    std::vector<char> host(64);
    const Accelerator device;
    for (void* start : {static_cast<void*>(host.data()), static_cast<void*>(device.address())}) {
      const iovec memory{start, 64};
      fi_mr_attr attr{};
      attr.mr_iov = &memory;
      attr.iov_count = 1;
      attr.access = FI_SEND;
      attr.iface = FI_HMEM_CUDA;
      fid_mr* region = nullptr;
      const int result = fi_mr_regattr(endpoint.domain, &attr, 0, &region);
      EXPECT_EQ(result, granted ? 0 : -FI_ENOSYS) << "the kernel decides about the address";
      if (result == 0) fi_close(&region->fid);
    }
    int mode = FI_HMEM_P2P_REQUIRED;
    bool may_call = false;
    EXPECT_EQ(fi_setopt(&endpoint.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &mode, sizeof mode),
              granted ? 0 : -FI_ENOPROTOOPT);
    EXPECT_EQ(fi_setopt(&endpoint.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CUDA_API_PERMITTED, &may_call, sizeof may_call),
              granted ? 0 : -FI_ENOPROTOOPT);
    mode = FI_HMEM_P2P_DISABLED;
    EXPECT_EQ(fi_setopt(&endpoint.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &mode, sizeof mode),
              granted ? -FI_EOPNOTSUPP : -FI_ENOPROTOOPT);
    size_t len = sizeof mode;
    if (!granted) continue;
    EXPECT_EQ(fi_getopt(&endpoint.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &mode, &len), 0);
    EXPECT_EQ(mode, FI_HMEM_P2P_REQUIRED);
  }
}

TEST_F(FaultsDeviceMemory, MessagesMoveWithoutTheProcessor) {
  add_device(true);
  Endpoint endpoint;
  ASSERT_TRUE(endpoint.open(FI_HMEM));
  const Accelerator from, to;
  std::vector<char> host_from(kSize), host_to(kSize);
  fid_mr *out = nullptr, *in = nullptr;
  ASSERT_EQ(from.add_to(endpoint.domain, FI_SEND, &out), 0);
  ASSERT_EQ(to.add_to(endpoint.domain, FI_RECV, &in), 0);
  unsigned seed = 0;
  for (const size_t len : {size_t{0}, size_t{1}, size_t{8}, size_t{4096}, size_t{16384}, size_t{100000}, kSize}) {
    fill(from.view(), len, ++seed);
    ASSERT_EQ(endpoint.exchange(from.address(), to.address(), len), kMoved) << len;
    EXPECT_EQ(std::memcmp(from.view(), to.view(), len), 0) << "device to device, " << len;
    fill(host_from.data(), len, ++seed);
    ASSERT_EQ(endpoint.exchange(host_from.data(), to.address(), len), kMoved) << len;
    EXPECT_EQ(std::memcmp(host_from.data(), to.view(), len), 0) << "host to device, " << len;
    fill(from.view(), len, ++seed);
    ASSERT_EQ(endpoint.exchange(from.address(), host_to.data(), len), kMoved) << len;
    EXPECT_EQ(std::memcmp(from.view(), host_to.data(), len), 0) << "device to host, " << len;
  }
  // A message that no receive awaits, and a part of the registered memory.
  fi_context2 sent, received;
  fill(from.view(), kSize, ++seed);
  ASSERT_EQ(
      endpoint.retry([&] { return fi_tsend(endpoint.ep, from.address() + 100, 50, nullptr, endpoint.self, 2, &sent); }),
      0);
  ASSERT_EQ(fi_trecv(endpoint.ep, to.address() + 7, 60, nullptr, FI_ADDR_UNSPEC, 2, 0, &received), 0);
  EXPECT_EQ(endpoint.outcome(&received), 0);
  EXPECT_EQ(endpoint.outcome(&sent), 0);
  EXPECT_EQ(std::memcmp(from.view() + 100, to.view() + 7, 50), 0);
  EXPECT_EQ(fi_close(&out->fid), 0);
  EXPECT_EQ(fi_close(&in->fid), 0);
}

TEST_F(FaultsDeviceMemory, MessagesUseTheRegistrationOfTheProgram) {
  add_device(true);
  Endpoint endpoint;
  ASSERT_TRUE(endpoint.open(FI_HMEM));
  const Accelerator from, to;
  fid_mr *out = nullptr, *in = nullptr;
  ASSERT_EQ(from.add_to(endpoint.domain, FI_SEND, &out), 0);
  ASSERT_EQ(to.add_to(endpoint.domain, FI_RECV, &in), 0);
  ASSERT_EQ(endpoint.exchange(from.address(), to.address(), kSize), kMoved);
  const auto before = fake::calls();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(endpoint.exchange(from.address(), to.address(), kSize), kMoved);
  auto after = fake::calls();
  EXPECT_EQ(after["ibv_reg_dmabuf_mr"], before.at("ibv_reg_dmabuf_mr"));
  EXPECT_EQ(after["ibv_reg_mr"], before.at("ibv_reg_mr"));
  EXPECT_EQ(fi_close(&out->fid), 0);
  EXPECT_EQ(fi_close(&in->fid), 0);
}

TEST_F(FaultsDeviceMemory, AccessesMoveWithoutTheProcessor) {
  add_device(true);
  Endpoint endpoint;
  ASSERT_TRUE(endpoint.open(FI_HMEM));
  const Accelerator from, to;
  fid_mr *local = nullptr, *remote = nullptr;
  ASSERT_EQ(from.add_to(endpoint.domain, FI_READ | FI_WRITE, &local), 0);
  ASSERT_EQ(to.add_to(endpoint.domain, FI_REMOTE_READ | FI_REMOTE_WRITE, &remote), 0);
  const auto there = reinterpret_cast<uint64_t>(to.address());
  fi_context2 context;
  for (const size_t len : {size_t{8}, size_t{4096}, kSize}) {
    fill(from.view(), len, 1);
    ASSERT_EQ(endpoint.retry([&] {
      return fi_write(endpoint.ep, from.address(), len, fi_mr_desc(local), endpoint.self, there, fi_mr_key(remote),
                      &context);
    }),
              0);
    ASSERT_EQ(endpoint.outcome(&context), 0);
    EXPECT_EQ(std::memcmp(from.view(), to.view(), len), 0);
    fill(to.view(), len, 2);
    ASSERT_EQ(endpoint.retry([&] {
      return fi_read(endpoint.ep, from.address(), len, fi_mr_desc(local), endpoint.self, there, fi_mr_key(remote),
                     &context);
    }),
              0);
    ASSERT_EQ(endpoint.outcome(&context), 0);
    EXPECT_EQ(std::memcmp(from.view(), to.view(), len), 0);
  }
  EXPECT_EQ(fi_close(&local->fid), 0);
  EXPECT_EQ(fi_close(&remote->fid), 0);
}

TEST_F(FaultsDeviceMemory, OperationsOfTheProcessorAreRefused) {
  add_device(true);
  Endpoint endpoint;
  ASSERT_TRUE(endpoint.open(FI_HMEM));
  const Accelerator device, other;
  std::vector<char> host(64);
  fid_mr *region = nullptr, *remote = nullptr;
  ASSERT_EQ(device.add_to(endpoint.domain, FI_SEND | FI_WRITE | FI_READ, &region), 0);
  ASSERT_EQ(other.add_to(endpoint.domain, FI_REMOTE_READ | FI_REMOTE_WRITE, &remote), 0);
  fid_ep* ep = endpoint.ep;
  const fi_addr_t self = endpoint.self;
  const auto there = reinterpret_cast<uint64_t>(other.address());
  const uint64_t key = fi_mr_key(remote);
  EXPECT_EQ(fi_inject(ep, device.address(), 8, self), -FI_EOPNOTSUPP);
  EXPECT_EQ(fi_tinject(ep, device.address(), 8, self, 1), -FI_EOPNOTSUPP);
  EXPECT_EQ(fi_inject_write(ep, device.address(), 8, self, there, key), -FI_EOPNOTSUPP);
  fi_context2 context;
  const auto update = [&](const void* operand) {
    return endpoint.retry(
        [&] { return fi_atomic(ep, operand, 1, nullptr, self, there, key, FI_UINT64, FI_SUM, &context); });
  };
  EXPECT_EQ(update(device.address()), -FI_EOPNOTSUPP);
  EXPECT_EQ(fi_fetch_atomic(ep, host.data(), 1, nullptr, device.address(), nullptr, self, there, key, FI_UINT64, FI_SUM,
                            &context),
            -FI_EOPNOTSUPP);
  // At the other end the processor would execute it: there is no such region for atomic operations.
  ASSERT_EQ(update(host.data()), 0);
  EXPECT_GT(endpoint.outcome(&context), 0);
  // Memory of the host is injected as everywhere.
  fi_context2 received;
  std::vector<char> in(64);
  fill(host.data(), host.size(), 3);
  ASSERT_EQ(fi_recv(ep, in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, &received), 0);
  ASSERT_EQ(endpoint.retry([&] { return fi_inject(ep, host.data(), host.size(), self); }), 0);
  EXPECT_EQ(endpoint.outcome(&received), 0);
  EXPECT_EQ(in, host);
  EXPECT_EQ(fi_close(&region->fid), 0);
  EXPECT_EQ(fi_close(&remote->fid), 0);
}

}  // namespace faults_device_memory_test
