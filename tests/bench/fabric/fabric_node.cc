// SPDX-License-Identifier: BSD-2-Clause
// One side of a fabric measurement; see fabric_node.h.
#include "fabric/fabric_node.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <cstring>

#include "process/process_pair.h"

namespace bench {
namespace {

constexpr int kWaitMs = 100;                        // of one wait for an event; running out only means to ask again
constexpr std::size_t kCompletionQueueSize = 1024;  // the first endpoint alone is active, with a window of 256 at most
constexpr std::size_t kConnectsAtOnce = 256;        // while setting up; the workloads that time connects say their own

template <class Object>
void close(Object* object) {
  if (object == nullptr) return;
  if (const int result = fi_close(&object->fid); result != 0) fail(fmt::format("fi_close answered {}", result));
}

}  // namespace

FabricNode::FabricNode(const Measurement& m, Role role, Wait wait, Channel& channel)
    : library_(m.library, m.plugins), measurement_(m), role_(role), wait_(wait) {
  endpoints_.reserve(m.connections);
  const bool waitable = wait == Wait::kBlock || m.waitable;
  if (role == Role::kServer) {
    query("0", FI_SOURCE);
    open_queues(waitable);
    channel.put(listen());
  } else {
    query(std::to_string(channel.get()).c_str(), 0);
    open_queues(waitable);
  }
}

FabricNode::~FabricNode() {
  for (fid_ep* ep : endpoints_) close(ep);
  close(listener_);
  close(cq_);
  close(eq_);
  close(domain_);
  close(fabric_);
  library_.freeinfo(info_);
}

void FabricNode::check(const char* what, ssize_t result) const {
  if (result < 0) fail(fmt::format("{}: {}", what, library_.strerror(static_cast<int>(-result))));
}

void FabricNode::query(const char* service, std::uint64_t flags) {
  fi_info* hints = library_.dupinfo(nullptr);
  hints->caps = FI_MSG | FI_RMA;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // one thread a process: no contestant needs locks
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup(measurement_.provider.c_str());
  check("fi_getinfo", library_.getinfo(kApiVersion, measurement_.address.c_str(), service, flags, hints, &info_));
  library_.freeinfo(hints);
}

void FabricNode::open_queues(bool waitable) {
  check("fi_fabric", library_.fabric(info_->fabric_attr, &fabric_, nullptr));
  check("fi_domain", fi_domain(fabric_, info_, &domain_, nullptr));
  fi_eq_attr eq_attr{};
  eq_attr.wait_obj = FI_WAIT_UNSPEC;
  check("fi_eq_open", fi_eq_open(fabric_, &eq_attr, &eq_, nullptr));
  fi_cq_attr cq_attr{};
  cq_attr.size = kCompletionQueueSize;
  cq_attr.format = FI_CQ_FORMAT_CONTEXT;
  cq_attr.wait_obj = waitable ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
  check("fi_cq_open", fi_cq_open(domain_, &cq_attr, &cq_, nullptr));
}

std::uint64_t FabricNode::listen() {
  check("fi_passive_ep", fi_passive_ep(fabric_, info_, &listener_, nullptr));
  check("fi_pep_bind", fi_pep_bind(listener_, &eq_->fid, 0));
  check("fi_listen", fi_listen(listener_));
  sockaddr_in address{};
  std::size_t length = sizeof address;
  check("fi_getname", fi_getname(&listener_->fid, &address, &length));
  return ntohs(address.sin_port);
}

fid_ep* FabricNode::open_endpoint(fi_info* info) {
  fid_ep* ep = nullptr;
  check("fi_endpoint", fi_endpoint(domain_, info, &ep, nullptr));
  check("fi_ep_bind", fi_ep_bind(ep, &eq_->fid, 0));
  const std::uint64_t selective = measurement_.selective ? FI_SELECTIVE_COMPLETION : 0;
  check("fi_ep_bind", fi_ep_bind(ep, &cq_->fid, FI_TRANSMIT | selective));
  check("fi_ep_bind", fi_ep_bind(ep, &cq_->fid, FI_RECV));
  check("fi_enable", fi_enable(ep));
  return ep;
}

fid_ep* FabricNode::start_connect() {
  fid_ep* ep = open_endpoint(info_);
  check("fi_connect", fi_connect(ep, info_->dest_addr, nullptr, 0));
  return ep;
}

fid_ep* FabricNode::accept_request(fi_info* info) {
  fid_ep* ep = open_endpoint(info);
  library_.freeinfo(info);
  check("fi_accept", fi_accept(ep, nullptr, 0));
  return ep;
}

std::uint32_t FabricNode::next_event(fi_eq_cm_entry& entry) {
  for (;;) {
    std::uint32_t event = 0;
    const ssize_t n = measurement_.busy_kernel ? fi_eq_sread(eq_, &event, &entry, sizeof entry, kWaitMs, 0)
                                               : fi_eq_read(eq_, &event, &entry, sizeof entry, 0);
    if (n >= 0) return event;
    if (n == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      check("fi_eq_readerr", fi_eq_readerr(eq_, &error, 0));
      fail(fmt::format("event queue: {}", library_.strerror(error.err)));
    }
    if (n != -FI_EAGAIN) check("fi_eq_read", n);
    fi_cq_read(cq_, nullptr, 0);  // manual progress: some providers notice here that a peer has left
  }
}

void FabricNode::accept(std::size_t count) {
  for (std::size_t connected = 0; connected < count;) {
    fi_eq_cm_entry entry{};
    const std::uint32_t event = next_event(entry);
    if (event == FI_CONNREQ) endpoints_.push_back(accept_request(entry.info));
    if (event == FI_CONNECTED) ++connected;
  }
}

void FabricNode::connect(std::size_t count, std::size_t outstanding) {
  std::size_t started = 0;
  for (std::size_t connected = 0; connected < count;) {
    for (; started < count && started - connected < outstanding; ++started) endpoints_.push_back(start_connect());
    fi_eq_cm_entry entry{};
    if (next_event(entry) == FI_CONNECTED) ++connected;
  }
}

void FabricNode::establish(std::size_t count) {
  const std::uint64_t start = now_ns();
  const auto make = [this](std::size_t n) { role_ == Role::kServer ? accept(n) : connect(n, kConnectsAtOnce); };
  make(1);
  make(count - 1);
  if (role_ == Role::kClient)
    report("connect_us", static_cast<double>(now_ns() - start) / 1e3 / static_cast<double>(count));
}

void FabricNode::leave(Channel& channel) {
  channel.put(0);
  while (!channel.ready()) fi_cq_read(cq_, nullptr, 0);
  channel.get();
  for (fid_ep* ep : endpoints_) close(ep);
  endpoints_.clear();
}

void FabricNode::serve_short_connections(std::size_t count) {
  for (std::size_t closed = 0; closed < count;) {
    fi_eq_cm_entry entry{};
    const std::uint32_t event = next_event(entry);
    if (event == FI_CONNREQ) accept_request(entry.info);
    if (event == FI_SHUTDOWN) {
      check("fi_close", fi_close(entry.fid));
      ++closed;
    }
  }
}

void FabricNode::connect_and_close() {
  fid_ep* ep = start_connect();
  fi_eq_cm_entry entry{};
  if (const std::uint32_t event = next_event(entry); event != FI_CONNECTED)
    fail(fmt::format("event {} in place of FI_CONNECTED", event));
  check("fi_close", fi_close(&ep->fid));
}

void FabricNode::fail_with_completion_error() const {
  fi_cq_err_entry error{};
  check("fi_cq_readerr", fi_cq_readerr(cq_, &error, 0));
  fail(fmt::format("completion queue: {}", library_.strerror(error.err)));
}

}  // namespace bench
