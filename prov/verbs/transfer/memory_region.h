// SPDX-License-Identifier: BSD-2-Clause
// Registered memory, fi_mr(3): one ibv_mr each, with exactly the requested access rights, ibv_reg_mr(3); or a reference
// to a cached one, decision 0018. The key is the rkey, the descriptor is the lkey. Owner: its C handle.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_domain.h>

#include <cstdint>

#include "abi/bridge.h"
#include "base/ref.h"
#include "verbs/device/verbs_handles.h"

namespace weft::verbs {

class DomainServices;
struct CachedRegion;

// The device's rules for access_of().
struct AccessRules {
  bool atomics = false;  // peers may update memory that they may write
  bool iwarp = false;    // the sink of a read is written remotely
};
// The IBV_ACCESS_ flags that a registration for `access` (FI_SEND ... FI_REMOTE_WRITE) needs.
int access_of(uint64_t access, const AccessRules& rules) noexcept;

// The registrations that may be cached: those without rights for peers, because fi_close must end such rights; or all,
// for a layered provider whose peers may keep them (reusable_regions.h).
enum class Reuse : std::uint8_t { kOwnRights, kAllRights };

class MemoryRegion final : public Object<fid_mr> {
 public:
  // -FI_EINVAL, -FI_EBADFLAGS, -FI_ENOSYS (device memory without a DMA buffer), and the kernel's errors: -FI_ENOMEM
  // (the limit of locked memory), -FI_EFAULT (not mapped), -FI_EACCES (read-only memory registered for writing).
  // `caps`: of the domain.
  static int open(DomainServices& domain, uint64_t caps, const fi_mr_attr* attr, uint64_t flags, Reuse reuse,
                  fid_mr** mr);

  // Slots of fi_ops.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);  // FI_ENABLE, FI_REFRESH, FI_GET_RAW_MR

 private:
  // One of `mr` and `cached`.
  MemoryRegion(DomainServices& domain, MemoryRegionHandle mr, CachedRegion* cached, uint64_t base,
               void* context) noexcept;

  const Ref<DomainServices> domain_;
  const MemoryRegionHandle mr_;
  CachedRegion* const cached_;
  const uint64_t base_;  // peers add their offset to it
};

// The lkey in a descriptor, and a peer's key as an rkey.
inline std::uint32_t lkey_of(const void* desc) noexcept {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(desc));
}

}  // namespace weft::verbs
