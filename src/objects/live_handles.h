// SPDX-License-Identifier: BSD-2-Clause
// The handles that an fi_info may carry into a provider: pending connection requests and passive endpoints (fi_cm(3),
// fi_endpoint(3)). A lookup never dereferences a handle, so stale and foreign handles are safe. The caller that removes
// a handle owns its object from then on. Each handle belongs to a fabric. Thread-safe.
#pragma once

#include <rdma/fabric.h>

#include <map>
#include <mutex>

#include "base/mutex.h"

namespace weft {

class LiveHandles {
 public:
  void insert(const ::fid* handle, const void* fabric) {
    std::lock_guard lock(mutex_);
    handles_.emplace(handle, fabric);
  }
  bool contains(const ::fid* handle) const {
    std::lock_guard lock(mutex_);
    return handles_.contains(handle);
  }
  bool remove(const ::fid* handle) noexcept {
    std::lock_guard lock(mutex_);
    return handles_.erase(handle) != 0;
  }
  // Calls `change` unless the handle was removed; meanwhile no thread can remove it.
  template <class F>
  void change_if_live(const ::fid* handle, F change) noexcept {
    std::lock_guard lock(mutex_);
    if (handles_.contains(handle)) change();
  }
  // Removes all of a fabric and calls `end` for each.
  template <class F>
  void remove_all(const void* fabric, F end) noexcept {
    std::lock_guard lock(mutex_);
    std::erase_if(handles_, [&](const auto& entry) {
      if (entry.second != fabric) return false;
      end(const_cast<::fid*>(entry.first));
      return true;
    });
  }

 private:
  mutable MutexLock mutex_;
  std::map<const ::fid*, const void*> handles_;  // and their fabrics
};

}  // namespace weft
