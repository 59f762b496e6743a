// SPDX-License-Identifier: BSD-2-Clause
// The cost of a reliable datagram from its injection to the receive that replaces its own, as in cost_pings.cc, in
// ofi_rxm and the provider below it: the price of fi_rxm(7) over an application's own connection; and that of a long
// message in memory that is registered already (decision 0018); see cost_main.cc.
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "cost.h"
#include "fake_rdma.h"

namespace {

using namespace cost;

constexpr size_t kSize = 8;
constexpr size_t kLong = size_t{1} << 20;
constexpr size_t kEntries = 64;  // most entries of a read
constexpr time_t kPatience = 60;

// An endpoint in a domain of its own, as if it belonged to another process.
class Talker {
 public:
  fid_ep* ep = nullptr;
  fid_cq* cq = nullptr;
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  char out[kSize] = {}, in[kSize] = {};
  std::vector<char> long_out = std::vector<char>(kLong), long_in = std::vector<char>(kLong);

  bool open() {
    fi_info* hints = fi_allocinfo();
    hints->fabric_attr->prov_name = strdup("verbs;ofi_rxm");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    int error = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info_);
    fi_freeinfo(hints);
    fi_cq_attr cq_attr{};
    fi_av_attr av_attr{};
    if (error == 0) error = fi_fabric(info_->fabric_attr, &fabric_, nullptr);
    if (error == 0) error = fi_domain(fabric_, info_, &domain_, nullptr);
    if (error == 0) error = fi_cq_open(domain_, &cq_attr, &cq, nullptr);
    if (error == 0) error = fi_av_open(domain_, &av_attr, &av_, nullptr);
    if (error == 0) error = fi_endpoint(domain_, info_, &ep, nullptr);
    if (error == 0) error = fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
    if (error == 0) error = fi_ep_bind(ep, &av_->fid, 0);
    if (error == 0) error = fi_enable(ep);
    return error == 0;
  }
  bool meet(const Talker& other) {
    char name[64];
    size_t len = sizeof name;
    return fi_getname(&other.ep->fid, name, &len) == 0 && fi_av_insert(av_, name, 1, &peer, 0, nullptr) == 1;
  }
  ~Talker() {
    for (fid* object : {ep ? &ep->fid : nullptr, av_ ? &av_->fid : nullptr, cq ? &cq->fid : nullptr,
                        domain_ ? &domain_->fid : nullptr, fabric_ ? &fabric_->fid : nullptr})
      if (object != nullptr) fi_close(object);
    fi_freeinfo(info_);
  }

  bool send() { return fi_inject(ep, out, kSize, peer) == 0; }
  bool send_long() { return fi_send(ep, long_out.data(), kLong, nullptr, peer, this) == 0; }
  bool receive_long() { return fi_recv(ep, long_in.data(), kLong, nullptr, FI_ADDR_UNSPEC, this) == 0; }
  bool receive() { return fi_recv(ep, in, kSize, nullptr, FI_ADDR_UNSPEC, this) == 0; }
  bool found() {
    fi_cq_entry entries[kEntries];
    return fi_cq_read(cq, entries, kEntries) == 1 && entries[0].op_context == this;
  }
  bool found_nothing() {
    fi_cq_entry entries[kEntries];
    return fi_cq_read(cq, entries, kEntries) == -FI_EAGAIN;
  }
  // Also drives the other end, on whose progress this one may depend.
  bool find(Talker& other) {
    for (const time_t end = std::time(nullptr) + kPatience; std::time(nullptr) < end; other.found_nothing())
      if (found()) return true;
    return false;
  }

 private:
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* av_ = nullptr;
};

}  // namespace

extern "C" {

__attribute__((noinline)) int measured_reliable(Talker* from, Talker* to) {
  for (int i = 0; i < kBatch; ++i) {
    if (!from->send() || !from->found_nothing() || !to->found() || !to->receive()) return -1;
    std::swap(from, to);
  }
  return kBatch;
}

__attribute__((noinline)) int measured_rendezvous(Talker* from, Talker* to) {
  for (int i = 0; i < kBatch; ++i) {
    if (!to->receive_long() || !from->send_long()) return -1;
    if (!to->find(*from) || !from->find(*to)) return -1;
  }
  return kBatch;
}

}  // extern "C"

namespace cost {

int run_reliable() {
  Talker client, server;
  if (!client.open() || !server.open() || !client.meet(server) || !server.meet(client)) return 1;
  // The first messages open the connection, and allocate the queues.
  bool complete = client.receive() && server.receive();
  complete = complete && client.send() && server.find(client) && server.receive();
  complete = complete && server.send() && client.find(server) && client.receive();
  complete = complete && measured_reliable(&client, &server) == kBatch;
  const long before = allocations;
  for (int batch = 0; batch < kBatches; ++batch) complete = complete && measured_reliable(&client, &server) == kBatch;
  return report("reliable", before, complete);
}

// The monitor reports nothing: none of the memory changes, and the tool that counts has no userfaultfd.
int run_rendezvous() {
  setenv("FI_MR_CACHE_MONITOR", "imported", 1);
  fi_ops_mem_monitor watch{.size = sizeof watch,
                           .start = [](fid_mem_monitor*) { return 0; },
                           .stop = [](fid_mem_monitor*) {},
                           .subscribe = [](fid_mem_monitor*, const void*, size_t) { return 0; },
                           .unsubscribe = [](fid_mem_monitor*, const void*, size_t) {},
                           .valid = [](fid_mem_monitor*, const void*, size_t) { return true; }};
  fid_mem_monitor monitor{};
  monitor.fid.fclass = FI_CLASS_MEM_MONITOR;
  monitor.export_ops = &watch;
  if (fi_import(FI_VERSION(1, 17), "mr_cache", nullptr, 0, 0, &monitor.fid, nullptr) != 0) return 1;
  bool complete = false;
  constexpr int kRounds = 20;  // batches
  uint64_t registered = 0;
  {
    Talker client, server;
    if (!client.open() || !server.open() || !client.meet(server) || !server.meet(client)) return 1;
    complete = measured_rendezvous(&client, &server) == kBatch;
    const uint64_t before = fake::calls()["ibv_reg_mr"];
    for (int i = 0; i < kRounds; ++i) complete = complete && measured_rendezvous(&client, &server) == kBatch;
    registered = fake::calls()["ibv_reg_mr"] - before;
  }
  std::printf("rendezvous: %d operations, %d registrations%s\n", kBatch * (kRounds + 1), static_cast<int>(registered),
              complete ? "" : ", something was lost");
  return fi_close(&monitor.fid) == 0 && complete && registered == 0 ? 0 : 1;
}

}  // namespace cost
