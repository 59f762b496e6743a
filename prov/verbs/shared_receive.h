// SPDX-License-Identifier: BSD-2-Clause
// A shared receive context on a shared receive queue of the device: one pool of receive buffers for many endpoints
// (fi_endpoint(3), fi_srx_context). A message's completion goes to the queue of the endpoint that it came in on.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <atomic>

#include "abi/bridge.h"
#include "base/light_lock.h"
#include "base/ref.h"
#include "base/status.h"
#include "verbs/verbs_handles.h"
#include "verbs/work_queue.h"

namespace weft::verbs {

class Domain;

// Owner: its C handle; close answers -FI_EBUSY while endpoints are bound. Thread-safe.
class SharedReceive final : public Object<fid_ep>, public RefCounted {
 public:
  // -FI_ENOSYS when the device has no shared receive queues.
  static int open(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context);
  static const fi_ops* fid_ops() noexcept;

  Domain& domain() const noexcept { return domain_; }
  ibv_srq* srq() const noexcept { return srq_.get(); }
  size_t size() const noexcept { return slots_.size(); }

  // Slots.
  int close();
  ssize_t cancel(void* context) noexcept;  // -FI_ENOENT, or -FI_EBUSY: the device has it
  int getopt(int level, int option, void* value, size_t* len) noexcept;
  int setopt(int level, int option, const void* value, size_t len) noexcept;
  ssize_t rx_size_left() noexcept;
  ssize_t recv(void* buf, size_t len, void* desc, fi_addr_t src, void* context) noexcept;
  ssize_t recvv(const iovec* iov, void** desc, size_t count, fi_addr_t src, void* context) noexcept;
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept;

 private:
  friend class CompletionChannel;
  SharedReceive(Domain& domain, const fi_rx_attr* attr, void* context) noexcept;
  Status create(size_t size) noexcept;
  ssize_t post(const iovec* iov, void* const* desc, size_t count, void* context, uint64_t flags) noexcept;
  ssize_t recv_slowly(void* buf, size_t len, void* desc, void* context) noexcept;
  ssize_t refused(int error) noexcept;
  // With a channel's lock held: what is left of a multi-receive buffer, under its old record.
  bool post_again(Posted& slot, const MultiReceive& multi) noexcept;
  void give_back(Posted& slot) noexcept {
    LightGuard guard(lock_);
    slots_.give_back(slot);
  }
  int post_list(Posted& slot, ibv_sge* sges, int count) noexcept;

  Domain& domain_;
  const Ref<Domain> domain_ref_;
  const uint64_t op_flags_;
  size_t iov_limit_;
  uint32_t sge_limit_ = 1;
  std::atomic<size_t> min_multi_receive_;
  SharedReceiveQueueHandle srq_;
  LightLock lock_;  // for records: many post, and many channels complete
  ReceiveSlots slots_;

  // The work request of a receive of one buffer, in which only what changes is written. Under the lock.
  struct Straight {
    ibv_recv_wr request{};
    ibv_sge pieces[2]{};      // the second: what is too long ends there
    std::uint32_t flags = 0;  // of Posted
    bool allowed = false;
  };
  Straight straight_;
};

}  // namespace weft::verbs
