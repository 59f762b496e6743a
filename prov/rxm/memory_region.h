// SPDX-License-Identifier: BSD-2-Clause
// Memory that peers access: registered with the lower provider, which serves reads and writes, and with the domain,
// which executes atomic operations; fi_mr(3).
#pragma once

#include <rdma/fi_domain.h>

#include <memory>
#include <optional>
#include <vector>

#include "abi/bridge.h"
#include "base/ref.h"
#include "rxm/device_memory.h"
#include "rxm/engine.h"

namespace weft::rxm {

class Domain;

// Owner: its C handle. Key and descriptor are the lower provider's. Thread-safe as the lower provider's regions are.
class MemoryRegion final : public Object<fid_mr> {
 public:
  static int open(Domain& domain, const fi_mr_attr* attr, uint64_t flags, fid_mr** mr);

  // Slots of fi_ops. Counters are bound here, other bindings and commands are passed to the lower provider.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

 private:
  MemoryRegion(Domain& domain, Lower<fid_mr> lower, Lower<fid_mr> local, Lower<fid_mr> atomics) noexcept;

  int bind_counter(Counter& counter, uint64_t flags);

  Domain& domain_;
  const Ref<RefCounted> domain_ref_;
  std::vector<std::unique_ptr<RemoteCount>> counts_;
  Lower<fid_mr> lower_;
  std::optional<DeviceMemory::Place> device_;  // memory of an accelerator, for messages
  Lower<fid_mr> local_;                        // for peers of this host, with the same key; null: as the next one
  Lower<fid_mr> atomics_;                      // in the domain's table; null: no remote access, or several ranges
};

}  // namespace weft::rxm
