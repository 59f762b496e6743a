// SPDX-License-Identifier: BSD-2-Clause
// Shared by the sides of all fabric measurements; see fabric_node.h.
#include "fabric/fabric_node.h"

#include <fmt/format.h>

#include <cstring>

#include "process/process_pair.h"

namespace bench {
namespace {

constexpr std::size_t kCompletionQueueSize = 1024;  // only the first endpoint is active, with a window of 256 at most

}  // namespace

FabricNode::~FabricNode() {
  close(cq_);
  close(eq_);
  close(domain_);
  close(fabric_);
  library_.freeinfo(info_);
}

void FabricNode::close(fid* object) {
  if (const int result = fi_close(object); result != 0) fail(fmt::format("fi_close answered {}", result));
}

void FabricNode::check(const char* what, ssize_t result) const {
  if (result < 0) fail(fmt::format("{}: {}", what, library_.strerror(static_cast<int>(-result))));
}

int FabricNode::query(const char* node, const char* service, std::uint64_t flags, void (*hint)(fi_info& hints)) {
  fi_info* hints = library_.dupinfo(nullptr);
  hints->addr_format = FI_SOCKADDR_IN;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // one thread a process: no contestant needs locks
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup(measurement_.provider.c_str());
  hint(*hints);
  const int result = library_.getinfo(kApiVersion, node, service, flags, hints, &info_);
  library_.freeinfo(hints);
  return result;
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

fid_ep* FabricNode::open_endpoint(fi_info* info) {
  fid_ep* ep = nullptr;
  check("fi_endpoint", fi_endpoint(domain_, info, &ep, nullptr));
  const std::uint64_t selective = measurement_.selective ? FI_SELECTIVE_COMPLETION : 0;
  check("fi_ep_bind", fi_ep_bind(ep, &cq_->fid, FI_TRANSMIT | selective));
  check("fi_ep_bind", fi_ep_bind(ep, &cq_->fid, FI_RECV));
  return ep;
}

std::uint32_t FabricNode::next_event(void* entry, std::size_t size) {
  for (;;) {
    std::uint32_t event = 0;
    const ssize_t n = measurement_.busy_kernel ? fi_eq_sread(eq_, &event, entry, size, -1, 0)
                                               : fi_eq_read(eq_, &event, entry, size, 0);
    if (n >= 0) return event;
    if (n == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      check("fi_eq_readerr", fi_eq_readerr(eq_, &error, 0));
      fail(fmt::format("event queue: {}", library_.strerror(error.err)));
    }
    if (n != -FI_EAGAIN) check("fi_eq_read", n);
    fi_cq_read(cq_, nullptr, 0);  // manual progress: some providers detect here that a peer has disconnected
  }
}

void FabricNode::fail_with_completion_error() const {
  fi_cq_err_entry error{};
  check("fi_cq_readerr", fi_cq_readerr(cq_, &error, 0));
  char text[128] = "";
  fi_cq_strerror(cq_, error.prov_errno, error.err_data, text, sizeof text);
  fail(fmt::format("completion queue: {}, {} ({})", library_.strerror(error.err), text, error.prov_errno));
}

}  // namespace bench
