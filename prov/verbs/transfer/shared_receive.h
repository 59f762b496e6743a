// SPDX-License-Identifier: BSD-2-Clause
// A shared receive context on a shared receive queue of the device: one pool of receive buffers for many endpoints
// (fi_endpoint(3), fi_srx_context). A completion goes to the queue of the endpoint that received the message.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_endpoint.h>

#include "base/ref.h"
#include "base/status.h"
#include "verbs/device/verbs_handles.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/message_calls.h"
#include "verbs/transfer/posted_receives.h"

namespace weft::verbs {

struct SharedReceives {
  static constexpr bool kManyCompleters = true;
  bool is_open() const noexcept { return srq != nullptr; }
  int post(ibv_recv_wr* request) const noexcept {
    ibv_recv_wr* bad;
    return ibv_post_srq_recv(srq.get(), request, &bad);
  }
  SharedReceiveQueueHandle srq;
};

// Owner: its C handle; close answers -FI_EBUSY while endpoints are bound. Thread-safe.
class SharedReceive final : public ReceiveCalls<SharedReceive>,
                            public RefCounted,
                            public PostedReceives<SharedReceives> {
 public:
  // -FI_ENOSYS when the device has no shared receive queues.
  static int open(DomainServices& domain, const fi_rx_attr* attr, fid_ep** srx, void* context);
  ~SharedReceive() { queue_.srq.reset(); }  // before the domain is released

  DomainServices& domain() const noexcept { return *domain_; }
  ibv_srq* srq() const noexcept { return queue_.srq.get(); }
  size_t size() const noexcept { return slots_.size(); }

  // Slots, beside those of ReceiveCalls.
  int close();
  ssize_t cancel(void* context) noexcept;  // -FI_ENOENT, or -FI_EBUSY: the device has it
  int getopt(int level, int option, void* value, size_t* len) noexcept;
  int setopt(int level, int option, const void* value, size_t len) noexcept;
  ssize_t rx_size_left() noexcept;

  // ReceiveTarget.
  SharedReceive& receives() noexcept { return *this; }
  ssize_t post_list(const iovec* iov, void* const* desc, size_t count, void* context, uint64_t flags) noexcept;

 private:
  SharedReceive(DomainServices& domain, const fi_rx_attr* attr, void* context) noexcept;
  Status create(size_t size, size_t iov) noexcept;

  const Ref<DomainServices> domain_;
};

}  // namespace weft::verbs
