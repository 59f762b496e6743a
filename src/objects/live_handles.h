// SPDX-License-Identifier: BSD-2-Clause
// The handles that an fi_info may carry into a provider: pending connection requests and passive endpoints (fi_cm(3),
// fi_endpoint(3)). Looking one up never touches it, so a handle that is stale or foreign is found out. Whoever removes
// a handle owns the object behind it. Thread-safe.
#pragma once

#include <rdma/fabric.h>

#include <mutex>
#include <unordered_set>

#include "base/mutex.h"

namespace weft {

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
  mutable MutexLock mutex_;
  std::unordered_set<const ::fid*> handles_;
};

}  // namespace weft
