// SPDX-License-Identifier: BSD-2-Clause
// A udp domain: one network interface, its progress engine and registered memory; fi_domain(3). Owner: its C
// handle; close answers -FI_EBUSY while anything opened in it lives. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include "objects/receive_queue.h"
#include "objects/software_domain.h"
#include "udp/engine.h"
#include "udp/fabric.h"
#include "udp/queues.h"

namespace weft::udp {

class Domain final : public SoftwareDomain<Domain, Fabric, Engine> {
 public:
  ReceivePool& receive_pool() noexcept { return receive_pool_; }  // under the engine's mutex

  // Slots of fi_ops_domain, beside those of SoftwareDomain. There are no atomics, and contexts are not shared.
  int endpoint(fi_info* info, fid_ep** ep, void* context);

 private:
  friend DomainBase;
  friend SoftwareDomain;
  using SoftwareDomain::SoftwareDomain;
  ~Domain() = default;

  ReceivePool receive_pool_;
};

}  // namespace weft::udp
