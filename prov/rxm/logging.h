// SPDX-License-Identifier: BSD-2-Clause
// The provider's fi_provider for fi_log(3) and fi_param(3), apart from its table of calls, which info.cc fills.
#pragma once

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

namespace weft::rxm {

// Constant except for `context`, which the core writes.
fi_provider& provider() noexcept;

// Memory has run out. What needs it is not lost: it waits, and is tried again with each round of progress.
[[gnu::noinline, gnu::cold]] inline void log_lack_of_memory() noexcept {
  FI_WARN_SPARSE(&provider(), FI_LOG_EP_DATA,
                 "no memory for messages, which wait until there is some: see ulimit -v and ulimit -l\n");
}

}  // namespace weft::rxm
