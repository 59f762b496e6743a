// SPDX-License-Identifier: BSD-2-Clause
// Memory of accelerators that the application has registered in a domain with FI_HMEM; fi_mr(3). Messages name it by
// its addresses, like other memory, but only the lower provider's device may access it: the processor must not.
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/status.h"
#include "rxm/lower.h"

namespace weft::rxm {

// A registration with the rights that messages need. Owners: the application's region, and the messages that use it.
struct DeviceRegion {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  Lower<fid_mr> lower;
};

// Owner: the domain. Thread-safe.
class DeviceMemory {
 public:
  using Regions = std::multimap<std::uintptr_t, std::shared_ptr<const DeviceRegion>>;
  using Place = Regions::iterator;

  // Whether `attr` describes such memory.
  static bool describes(const fi_mr_attr& attr, uint64_t flags, uint32_t api_version) noexcept;

  // Registers it with the lower provider for messages. std::bad_alloc.
  Result<Place> add(fid_domain* lower, const fi_mr_attr& attr, uint64_t flags);
  void remove(Place place) noexcept;

  // Whether a part of these buffers is such memory.
  bool includes(std::span<const iovec> buffers) noexcept;
  // A reference to the registration that contains this memory; nullptr: no such registration, or memory runs out.
  Lower<fid_mr> use(const void* buf, std::size_t len) noexcept;

 private:
  const std::shared_ptr<const DeviceRegion>* find_locked(std::uintptr_t start, std::uintptr_t end) const noexcept;

  std::mutex mutex_;  // guards the rest
  Regions regions_;   // by the first address
  std::size_t longest_ = 0;
};

}  // namespace weft::rxm
