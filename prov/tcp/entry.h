// SPDX-License-Identifier: BSD-2-Clause
// The entry point of the built-in tcp provider: fi_provider(7), fi_tcp(7).
#pragma once

#include <rdma/providers/fi_prov.h>

extern "C" fi_provider* weft_tcp_ini(void);
