// SPDX-License-Identifier: BSD-2-Clause
// A tcp fabric: one IP network; fi_fabric(3). Owner: its C handle; close answers -FI_EBUSY while domains, passive
// endpoints, event queues or wait sets live. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include <mutex>
#include <unordered_set>

#include "abi/bridge.h"
#include "base/ref.h"
#include "tcp/parameters.h"

namespace weft::tcp {

// The handles that an fi_info may carry in: pending connection requests and passive endpoints. Looking one up never
// touches it, so a handle that is stale or foreign is found out. Whoever removes a handle owns the object behind it.
class LiveHandles {
 public:
  void insert(const ::fid* handle) {
    std::lock_guard lock(mutex_);
    handles_.insert(handle);
  }
  bool contains(const ::fid* handle) const {
    std::lock_guard lock(mutex_);
    return handles_.contains(handle);
  }
  bool remove(const ::fid* handle) noexcept {
    std::lock_guard lock(mutex_);
    return handles_.erase(handle) != 0;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<const ::fid*> handles_;
};

class Fabric final : public Object<fid_fabric>, public RefCounted {
 public:
  // fi_fabric. -FI_EINVAL without attributes or name.
  static int open(fi_fabric_attr* attr, fid_fabric** fabric, void* context);
  static const fi_ops* fid_ops() noexcept;

  const Parameters parameters = Parameters::read();
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
  Fabric(uint32_t api_version, void* context) noexcept;
};

}  // namespace weft::tcp
