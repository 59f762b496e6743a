// SPDX-License-Identifier: BSD-2-Clause
// A shared receive context on a shared receive queue of the device: one pool of receive buffers for many endpoints
// (fi_endpoint(3), fi_srx_context). A message's completion goes to the queue of the endpoint that it came in on.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "abi/bridge.h"
#include "base/light_lock.h"
#include "base/ref.h"
#include "verbs/verbs_handles.h"
#include "verbs/work_queue.h"

namespace weft::verbs {

class Domain;

// Owner: its C handle; close answers -FI_EBUSY while endpoints are bound. Thread-safe.
class SharedReceive final : public Object<fid_ep>, public RefCounted {
 public:
  static int open(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context);
  static const fi_ops* fid_ops() noexcept;

  ibv_srq* srq() const noexcept { return srq_.get(); }
  std::size_t size() const noexcept { return slots_.size(); }

  // Slots.
  int close();
  ssize_t cancel(void* context) noexcept;
  int getopt(int level, int option, void* value, size_t* len) noexcept;
  int setopt(int level, int option, const void* value, size_t len) noexcept;
  ssize_t rx_size_left() noexcept;
  ssize_t recv(void* buf, size_t len, void* desc, fi_addr_t src, void* context) noexcept;
  ssize_t recvv(const iovec* iov, void** desc, size_t count, fi_addr_t src, void* context) noexcept;
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept;

 private:
  friend class CompletionChannel;
  friend struct WorkCompletion;
  SharedReceive(Domain& domain, const fi_rx_attr& attr, void* context) noexcept;
  ssize_t post(const iovec* iov, void** desc, size_t count, void* context, uint64_t flags) noexcept;

  Domain& domain_;
  const Ref<Domain> domain_ref_;
  const uint64_t op_flags_;
  const std::size_t iov_limit_;
  SharedReceiveQueueHandle srq_;
  LightLock lock_;  // posting and completing: many channels complete
  ReceiveSlots slots_;
};

}  // namespace weft::verbs
