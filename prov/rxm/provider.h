// SPDX-License-Identifier: BSD-2-Clause
// The ofi_rxm provider as the core sees it: reliable datagrams (FI_EP_RDM) over the connected endpoints (FI_EP_MSG) of
// any other provider; fi_provider(7), fi_rxm(7).
#pragma once

#include <rdma/providers/fi_prov.h>

// The entry point that the library calls for its built-in provider.
extern "C" fi_provider* weft_rxm_ini(void);

namespace weft::rxm {

// For fi_log and fi_param. Constant but for `context`, where the core keeps its marks.
fi_provider& provider() noexcept;

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** info);

}  // namespace weft::rxm
