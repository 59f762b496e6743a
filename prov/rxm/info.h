// SPDX-License-Identifier: BSD-2-Clause
// The answer of ofi_rxm to fi_getinfo(3).
#pragma once

#include <rdma/fabric.h>

namespace weft::rxm {

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** info);

}  // namespace weft::rxm
