// SPDX-License-Identifier: BSD-2-Clause
// Shared receive contexts; see shared_receive.h.
#include "tcp/connection/shared_receive.h"

#include "objects/endpoint_options.h"

namespace weft::tcp {

int SharedReceive::open(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context) {
  if (srx == nullptr) return -FI_EINVAL;
  auto* shared = new SharedReceive(domain, attr);
  identify<SharedReceive>(shared->abi, FI_CLASS_SRX_CTX, context);
  shared->abi.msg = ops_of<SharedReceive>;
  shared->abi.tagged = ops_of<SharedReceive>;
  *srx = &shared->abi;
  return 0;
}

SharedReceive::SharedReceive(Domain& domain, const fi_rx_attr* attr)
    : ReceiveCalls(attr),
      domain_(domain),
      engine_(domain.engine()),
      queue_(domain.parts().pools.receives, queue_size(attr, kDefaultQueueSize)) {}

int SharedReceive::close() {
  if (in_use()) return -FI_EBUSY;
  const Ref<Domain> keep = domain_;  // the mutex outlives the lock
  Lock lock(engine_.mutex());        // posted receives return to the domain's pool
  delete this;
  return 0;
}

ssize_t SharedReceive::cancel(void* context) noexcept {
  Lock lock(engine_.mutex());
  return queue_.cancel(context, routes()) ? 0 : -FI_ENOENT;
}

int SharedReceive::getopt(int level, int option, void* value, size_t* len) noexcept {
  if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  return report_option(queue_.min_multi_receive, value, len);
}

int SharedReceive::setopt(int level, int option, const void* value, size_t len) noexcept {
  if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  Lock lock(engine_.mutex());
  return read_option(value, len, queue_.min_multi_receive);
}

ssize_t SharedReceive::rx_size_left() noexcept {
  Lock lock(engine_.mutex());
  return static_cast<ssize_t>(queue_.room());
}

ssize_t SharedReceive::post_receive(const ReceiveRequest& request, fi_addr_t) noexcept {
  // Receives of these contexts wait for no counter.
  const uint64_t refused = FI_TRIGGER | (request.tagged ? 0 : FI_PEEK | FI_CLAIM | FI_DISCARD);
  if ((request.flags & refused) != 0) return -FI_EBADFLAGS;
  if (!valid_vector(request.iov)) return -FI_EINVAL;
  Lock lock(engine_.mutex());
  if ((request.flags & FI_PEEK) != 0) engine_.progress();  // as in TransferEndpoint
  return queue_.post(request, routes());
}

}  // namespace weft::tcp
