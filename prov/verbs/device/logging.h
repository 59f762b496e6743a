// SPDX-License-Identifier: BSD-2-Clause
// The provider's fi_provider for fi_log(3) and fi_param(3), apart from its table of calls, which domain.cc fills.
#pragma once

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

namespace weft::verbs {

// Constant except for `context`, which the core writes.
fi_provider& provider() noexcept;

}  // namespace weft::verbs
