// SPDX-License-Identifier: BSD-2-Clause
// The infos of a fabric's passive endpoints; fi_passive_ep of fi_endpoint(3). A server with thousands of listeners
// opens them with equal infos, which are kept once.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "base/mutex.h"
#include "objects/info.h"

namespace weft {

// Owner: the fabric. Thread-safe.
class SharedInfo {
 public:
  // A copy of `info`, perhaps with the addresses of an earlier one. Null when memory runs out.
  std::shared_ptr<const fi_info> copy_of(const fi_info& info) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<const fi_info> copy = last_.lock();
    if (copy != nullptr && same_attributes(*copy, info)) return copy;
    copy = InfoPtr(duplicate_info(&info));
    last_ = copy;
    return copy;
  }

 private:
  MutexLock mutex_;
  std::weak_ptr<const fi_info> last_;
};

}  // namespace weft
