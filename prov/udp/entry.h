// SPDX-License-Identifier: BSD-2-Clause
// The entry point of the built-in udp provider: fi_provider(7), fi_udp(7).
#pragma once

#include <rdma/providers/fi_prov.h>

extern "C" fi_provider* weft_udp_ini(void);
