// SPDX-License-Identifier: BSD-2-Clause
// A shared receive context: one pool of receive buffers for many endpoints (fi_endpoint(3), fi_srx_context). A
// message's completion goes to the queue of the endpoint that it came in on.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <vector>

#include "base/ref.h"
#include "objects/completion_routes.h"
#include "tcp/receive_calls.h"
#include "tcp/receive_queue.h"

namespace weft::tcp {

class Domain;
class TransferEndpoint;

// Owner: its C handle; close answers -FI_EBUSY while endpoints are bound. Thread-safe (the engine's mutex).
class SharedReceive final : public ReceiveCalls<SharedReceive>, public RefCounted {
 public:
  static int open(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context);
  static const fi_ops* fid_ops() noexcept;

  ReceiveQueue& queue() noexcept { return queue_; }
  // Enabled endpoints, with the engine's mutex held. The oldest lends its queue for what concerns none in particular:
  // cancelled receives, FI_PEEK.
  void add(TransferEndpoint& endpoint);
  void remove(TransferEndpoint& endpoint) noexcept;

  // Slots, beside those of ReceiveCalls.
  int close();
  ssize_t cancel(void* context) noexcept;
  int getopt(int level, int option, void* value, size_t* len) noexcept;
  int setopt(int level, int option, const void* value, size_t len) noexcept;
  ssize_t rx_size_left() noexcept;

 private:
  friend ReceiveCalls;
  SharedReceive(Domain& domain, const fi_rx_attr* attr, void* context) noexcept;
  ssize_t post(const ReceiveRequest& request) noexcept;
  uint64_t receive_flags() const noexcept { return op_flags_; }
  CompletionRoutes& routes() noexcept;

  Domain& domain_;
  const Ref<Domain> domain_ref_;
  const uint64_t op_flags_;
  ReceiveQueue queue_;
  CompletionRoutes no_routes_;
  std::vector<TransferEndpoint*> endpoints_;
};

}  // namespace weft::tcp
