// SPDX-License-Identifier: BSD-2-Clause
// The udp provider as the core sees it: fi_provider(7), fi_udp(7).
#pragma once

#include <rdma/providers/fi_prov.h>

// The entry point that the library calls for its built-in provider.
extern "C" fi_provider* weft_udp_ini(void);

namespace weft::udp {

// For fi_log and fi_param. Constant but for `context`, where the core keeps its marks.
fi_provider& provider() noexcept;

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** info);

}  // namespace weft::udp
