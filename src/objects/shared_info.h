// SPDX-License-Identifier: BSD-2-Clause
// Infos that the children of a fabric keep; fi_passive_ep of fi_endpoint(3), fi_domain(3). A server with thousands of
// listeners, or with a domain for each connection, opens them with equal infos, which are kept once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/mutex.h"
#include "objects/info.h"

namespace weft {

// Owner: the fabric. Thread-safe.
class SharedInfo {
 public:
  enum class Addresses : std::uint8_t { kIgnored, kMatter };
  // kIgnored: copies may have the addresses of an earlier info.
  explicit SharedInfo(Addresses addresses = Addresses::kIgnored) noexcept : addresses_(addresses) {}

  // Null when memory runs out.
  std::shared_ptr<const fi_info> copy_of(const fi_info& info) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<const fi_info> copy = last_.lock();
    if (copy != nullptr && same_attributes(*copy, info) &&
        (addresses_ == Addresses::kIgnored || same_addresses(*copy, info)))
      return copy;
    copy = InfoPtr(duplicate_info(&info));
    last_ = copy;
    return copy;
  }

 private:
  const Addresses addresses_;
  MutexLock mutex_;
  std::weak_ptr<const fi_info> last_;
};

}  // namespace weft
