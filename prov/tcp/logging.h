// SPDX-License-Identifier: BSD-2-Clause
// The provider's fi_provider for fi_log(3) and fi_param(3), apart from its table of calls, which info.cc fills.
#pragma once

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <atomic>

#include "base/status.h"

namespace weft::tcp {

// Constant except for `context`, which the core writes.
fi_provider& provider() noexcept;

// A failure whose repetitions say nothing new.
inline void log_once(std::atomic_flag& logged, const char* what, Status status) noexcept {
  if (!logged.test_and_set()) FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s: %s\n", what, fi_strerror(status.error()));
}

inline void log_unshared(Status status) noexcept {
  static std::atomic_flag logged;
  log_once(logged, "no memory is shared with peers of this host", status);
}

}  // namespace weft::tcp
