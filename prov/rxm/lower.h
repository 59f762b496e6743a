// SPDX-License-Identifier: BSD-2-Clause
// The provider below: how its connected endpoints are asked for, and what of them this one passes on; fi_getinfo(3),
// fi_rxm(7) REQUIREMENTS.
#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "objects/info.h"

namespace weft::rxm {

// fi_close; of the lower provider's objects only.
struct CloseLower {
  template <class Fid>
  void operator()(Fid* object) const noexcept {
    if (object != nullptr) fi_close(&object->fid);
  }
};
template <class Fid>
using Lower = std::unique_ptr<Fid, CloseLower>;

// "tcp" of "tcp;ofi_rxm".
std::string lower_name(std::string_view prov_name);

// Completion levels that are the lower provider's to keep.
inline constexpr uint64_t kLowerLevels = FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

// What to ask the lower providers for, for a caller with these hints (may be null). Null when memory runs out.
InfoPtr lower_hints(const fi_info* hints);

// What the core offers an endpoint over; a list. `hints` are lower_hints(). -FI_ENODATA and other errors of fi_getinfo.
Result<InfoPtr> find_lower(uint32_t version, const char* node, const char* service, uint64_t flags,
                           const fi_info* hints);

// The lower info that an info of ours was made of: same provider, fabric, domain, source address. Its op_flags are the
// levels that it has; they are no defaults for its endpoints.
Result<InfoPtr> lower_of(const fi_info& info, uint32_t version);

// Does the lower provider need local memory to be registered? Answered here, so the application need not.
inline bool needs_local_registration(const fi_info& lower) noexcept {
  return (lower.domain_attr->mr_mode & (FI_MR_LOCAL | static_cast<int>(FI_MR_BASIC))) != 0 ||
         (lower.mode & FI_LOCAL_MR) != 0;
}

// Over a byte stream messages are not cut to pieces: libfabric 1.17 does not expect that there.
inline bool is_stream(const fi_info& lower) noexcept {
  return lower.ep_attr->protocol == FI_PROTO_SOCK_TCP || lower.ep_attr->protocol == FI_PROTO_XNET;
}

}  // namespace weft::rxm
