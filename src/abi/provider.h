// SPDX-License-Identifier: BSD-2-Clause
// A provider's table for the core; fi_provider(7) governs the calls.
#pragma once

#include <rdma/providers/fi_prov.h>

#include "abi/bridge.h"

namespace weft {

// `GetInfo` answers fi_getinfo, `Fabric::open` opens a fabric; exceptions of either become error codes here. The name
// is a literal. `Cleanup` runs before the library is unloaded, also at the exit of the process. The result is constant
// except for `context`, where the core stores its marks, so a provider stores it in a static variable.
template <class Fabric, auto GetInfo, auto Cleanup = [] {}>
fi_provider make_provider(const char* name) noexcept {
  return {
      .version = FI_VERSION(FI_MAJOR_VERSION * 100 + FI_MINOR_VERSION, 0),
      .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
      .context = {},
      .name = name,
      .getinfo =
          [](uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
             fi_info** info) noexcept {
            return guarded([&]() -> int { return GetInfo(version, node, service, flags, hints, info); });
          },
      .fabric =
          [](fi_fabric_attr* attr, fid_fabric** fabric, void* context) noexcept {
            return guarded([&]() -> int { return Fabric::open(attr, fabric, context); });
          },
      .cleanup = [] { Cleanup(); },
  };
}

}  // namespace weft
