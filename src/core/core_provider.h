// SPDX-License-Identifier: BSD-2-Clause
// The provider structure under which the core itself logs; fi_provider(7).
#pragma once

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

namespace weft::core {

// A name for fi_log; neither registered nor callable.
inline const fi_provider& core_provider() noexcept {
  static constexpr fi_provider kCore{.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
                                     .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
                                     .context = {},
                                     .name = "core",
                                     .getinfo = nullptr,
                                     .fabric = nullptr,
                                     .cleanup = nullptr};
  return kCore;
}

}  // namespace weft::core
