// SPDX-License-Identifier: BSD-2-Clause
// A udp domain: one network interface, its progress engine and registered memory; fi_domain(3). Owner: its C handle;
// close answers -FI_EBUSY while anything opened in it exists. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include "messages/receive_queue.h"
#include "objects/software_domain.h"
#include "udp/engine.h"
#include "udp/fabric.h"

namespace weft::udp {

class Domain final : public SoftwareDomain<Domain, Fabric, Engine> {
 public:
  messages::DatagramPool& receive_pool() noexcept { return receive_pool_; }  // with the engine's mutex held

  // Slots of fi_ops_domain, beside those of SoftwareDomain. Neither atomic operations nor shared contexts are
  // supported.
  int endpoint(fi_info* info, fid_ep** ep, void* context);

 private:
  friend DomainBase;
  friend SoftwareDomain;
  using SoftwareDomain::SoftwareDomain;
  ~Domain() = default;

  messages::DatagramPool receive_pool_;
};

}  // namespace weft::udp
