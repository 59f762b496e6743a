// SPDX-License-Identifier: BSD-2-Clause
// A shared receive context: one pool of receive buffers for many endpoints (fi_endpoint(3), fi_srx_context). A
// message's completion goes to the queue of the endpoint that it came in on.
#pragma once

#include <rdma/fi_endpoint.h>

#include "base/ref.h"
#include "objects/transfer_calls.h"
#include "tcp/connection/endpoint_receiver.h"

namespace weft::tcp {

// Owner: its C handle; close answers -FI_EBUSY while endpoints are bound. Thread-safe (the engine's mutex).
class SharedReceive final : public ReceiveCalls<SharedReceive>, public RefCounted {
 public:
  static int open(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context);

  const Domain& domain() const noexcept { return *domain_; }
  ReceiveQueue& queue() noexcept { return queue_; }
  // Enabled endpoints, with the engine's mutex held. Completions that belong to no endpoint (cancelled receives,
  // FI_PEEK without a message) go to the oldest one's queue.
  void add(EndpointReceiver& endpoint) noexcept { endpoints_.push_back(endpoint); }

  // Slots, beside those of ReceiveCalls.
  int close();
  ssize_t cancel(void* context) noexcept;
  int getopt(int level, int option, void* value, size_t* len) noexcept;
  int setopt(int level, int option, const void* value, size_t len) noexcept;
  ssize_t rx_size_left() noexcept;

  // ReceiveTarget.
  ssize_t post_receive(const ReceiveRequest& request, fi_addr_t source) noexcept;

 private:
  SharedReceive(Domain& domain, const fi_rx_attr* attr);
  CompletionRoutes& routes() noexcept { return endpoints_.empty() ? no_routes_ : endpoints_.front().routes; }

  const Ref<Domain> domain_;
  Engine& engine_;
  ReceiveQueue queue_;
  CompletionRoutes no_routes_;
  List<EndpointReceiver, SharingTag> endpoints_;
};

}  // namespace weft::tcp
