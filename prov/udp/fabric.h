// SPDX-License-Identifier: BSD-2-Clause
// A udp fabric: one IP network; fi_fabric(3). Owner: its C handle; close answers -FI_EBUSY while domains, event queues
// or wait sets live. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include "abi/bridge.h"
#include "base/ref.h"
#include "udp/parameters.h"

namespace weft::udp {

class Fabric final : public Object<fid_fabric>, public RefCounted {
 public:
  // fi_fabric. -FI_EINVAL without attributes or name.
  static int open(fi_fabric_attr* attr, fid_fabric** fabric, void* context);
  static const fi_ops* fid_ops() noexcept;

  const Parameters parameters = Parameters::read();

  // Slots of fi_ops.
  int close();

  // Slots of fi_ops_fabric.
  int domain(fi_info* info, fid_domain** domain, void* context);
  int domain2(fi_info* info, fid_domain** domain, uint64_t flags, void* context);
  int eq_open(fi_eq_attr* attr, fid_eq** eq, void* context);
  int wait_open(fi_wait_attr* attr, fid_wait** set);
  int trywait(::fid** fids, int count);

 private:
  Fabric(uint32_t api_version, void* context) noexcept;
};

}  // namespace weft::udp
