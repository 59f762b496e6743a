// SPDX-License-Identifier: BSD-2-Clause
// A verbs fabric: one subnet; fi_fabric(3). It owns what drives all connections in it. Owner: its C handle; close
// answers -FI_EBUSY while domains, passive endpoints, event queues or wait sets live. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include <memory>

#include "abi/bridge.h"
#include "base/ref.h"
#include "objects/live_handles.h"
#include "verbs/cm_engine.h"
#include "verbs/parameters.h"

namespace weft::verbs {

class Fabric final : public Object<fid_fabric>, public RefCounted {
 public:
  // fi_fabric. -FI_EINVAL without attributes or name.
  static int open(fi_fabric_attr* attr, fid_fabric** fabric, void* context);
  static const fi_ops* fid_ops() noexcept;

  CmEngine& engine() const noexcept { return *engine_; }

  const Parameters parameters;
  LiveHandles requests;
  LiveHandles passive_endpoints;

  // Slots of fi_ops.
  int close();

  // Slots of fi_ops_fabric.
  int domain(fi_info* info, fid_domain** domain, void* context);
  int domain2(fi_info* info, fid_domain** domain, uint64_t flags, void* context);
  int passive_ep(fi_info* info, fid_pep** pep, void* context);
  int eq_open(fi_eq_attr* attr, fid_eq** eq, void* context);
  int wait_open(fi_wait_attr* attr, fid_wait** set);
  int trywait(::fid** fids, int count);

 private:
  Fabric(Parameters values, std::unique_ptr<CmEngine> engine, uint32_t api_version, void* context) noexcept;

  const std::unique_ptr<CmEngine> engine_;
};

}  // namespace weft::verbs
