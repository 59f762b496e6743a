// SPDX-License-Identifier: BSD-2-Clause
// The data side of a connected endpoint: the calls of fi_msg(3), fi_rma(3) and fi_atomic(3); bindings, queue sizes and
// cancellation of fi_endpoint(3). The derived class manages the connection.
//
// Until enable_transfers() every slot returns -FI_EOPBADSTATE. After it receives may be posted, after start() messages
// may be sent: the tables change with the state, so the calls check no state.
//
// Locks, in this order: the engine's mutex (control), that of the send queue, a channel's, that of the receive queue,
// queues and counters.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_atomic.h>

#include "base/status.h"
#include "objects/atomic_calls.h"
#include "verbs/transfer/completion_routes.h"
#include "verbs/transfer/queues.h"
#include "verbs/transfer/receive_queue.h"
#include "verbs/transfer/rma_calls.h"
#include "verbs/transfer/send_queue.h"
#include "verbs/transfer/transfer_sizes.h"

namespace weft::verbs {

class DomainServices;

class TransferEndpoint : public AtomicCalls<TransferEndpoint, RmaCalls<TransferEndpoint>>, protected TransferOwner {
 public:
  // For AtomicCalls.
  ssize_t update(const AtomicRequest& request) noexcept;
  size_t atomic_count(AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept;
  uint64_t default_flags() noexcept { return sends_.flags(); }

  // For RmaCalls, and SendTarget.
  bool is_enabled() const noexcept { return enabled_; }
  bool takes_cq_data() const noexcept { return takes_cq_data_; }
  SendQueue& sends() noexcept { return sends_; }
  ReceiveQueue& receives() noexcept { return receives_; }
  bool aim(fi_addr_t) const noexcept { return sends_.is_clear(); }
  ssize_t transmit(const SendWork& work, fi_addr_t) noexcept {
    return work.must_be_delivered() ? sends_.post_delivered(work) : sends_.post(work);
  }

  // Constant once the endpoint is enabled, except for counters.
  CompletionRoutes routes{*this};

 protected:
  TransferEndpoint(DomainServices& domain, const fi_info& info, void* context) noexcept;
  virtual ~TransferEndpoint() = default;

  // Everything below is called with the engine's mutex held.

  // -FI_EINVAL for flags without a direction; -FI_EOPBADSTATE once enabled.
  Status bind_cq(CompletionQueue& queue, uint64_t flags) noexcept;
  Status bind_counter(Counter& counter, uint64_t flags) noexcept;
  Status bind_shared_receive(SharedReceive& shared, uint64_t flags) noexcept;
  // -FI_ENOCQ when a direction of the endpoint's capabilities has neither queue nor counter; -FI_ENOMEM.
  Status enable_transfers() noexcept;
  bool transfers_enabled() const noexcept { return enabled_; }

  // For ibv_create_qp. After enable_transfers().
  ibv_qp_init_attr qp_attributes() const noexcept;
  bool has_shared_receive() const noexcept { return receives_.shared() != nullptr; }
  // The queue pair exists and accepts receives (INIT or later). The caller keeps ownership.
  Status adopt_qp(ibv_qp* qp) noexcept;
  // Connected, or about to be: sends are allowed. Idempotent.
  void start() noexcept;
  // The queue pair, if there is one, is in its error state or about to enter it: accepts no more operations, and
  // cancels receives that the device never got. Idempotent.
  void stop() noexcept;
  // The device has no posted operations of this endpoint. After stop().
  bool idle() noexcept { return sends_.idle() && receives_.idle(); }
  // Polls; true once every posted operation has completed. After stop(). Callers repeat it until it is true or their
  // time-out expires.
  bool drain() noexcept;
  // The queue pair, if there was one, has been destroyed: completes all remaining operations with FI_ECANCELED and
  // releases the queues. After stop(), and before this object is destroyed. Idempotent.
  void abandon() noexcept;
  bool probe() noexcept { return sends_.probe(); }

  // -FI_ENOPROTOOPT for options that do not concern transfers. These two take no lock of the engine.
  int getopt_transfer(int option, void* value, size_t* len) noexcept;
  int setopt_transfer(int option, const void* value, size_t len) noexcept;

  const Ref<DomainServices> domain_;

 private:
  TransferSizes sizes_;
  const uint64_t caps_;
  SendQueue sends_;
  ReceiveQueue receives_;
  const bool takes_cq_data_;
  bool enabled_ = false;
  bool abandoned_ = false;
};

}  // namespace weft::verbs
