// SPDX-License-Identifier: BSD-2-Clause
// Recognises registrations of memory that only a device can access; fi_mr(3), `iface`.
#pragma once

#include <rdma/fi_domain.h>

namespace weft {

// Whether `attr` names memory of an accelerator other than by a dmabuf. The manual page ignores `iface` without
// FI_HMEM; a processor that copies from such an address ends the process, so the registration is refused instead.
// Values that name no interface are ignored, and programs of API < 1.10 have no such member.
inline bool is_device_memory(const fi_mr_attr& attr, uint64_t flags, uint32_t api_version) noexcept {
  if (FI_VERSION_LT(api_version, FI_VERSION(1, 10)) || (flags & FI_MR_DMABUF) != 0) return false;
  return attr.iface > FI_HMEM_SYSTEM && attr.iface <= FI_HMEM_SYNAPSEAI;
}

}  // namespace weft
