// SPDX-License-Identifier: BSD-2-Clause
// The verbs provider as libfabric sees it: fi_provider(7), fi_verbs(7). The module's one export, fi_prov_ini, returns
// it.
#pragma once

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

namespace weft::verbs {

// For fi_log and fi_param. Constant but for `context`, where the core keeps its marks.
fi_provider& provider() noexcept;

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** info);

}  // namespace weft::verbs
