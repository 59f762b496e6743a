// SPDX-License-Identifier: BSD-2-Clause
// The built-in udp provider: its entry point, and the calls of the core; fi_provider(7), fi_udp(7), fi_getinfo(3).
#pragma once

#include <rdma/providers/fi_prov.h>

extern "C" fi_provider* weft_udp_ini(void);

namespace weft::udp {

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** info);

}  // namespace weft::udp
