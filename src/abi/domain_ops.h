// SPDX-License-Identifier: BSD-2-Clause
// The ops table of domains; fi_domain(3) governs the calls.
#pragma once

#include <rdma/fi_domain.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_domain make_domain_ops() noexcept {
  fi_ops_domain table{};
  table.size = sizeof table;
  WEFT_SLOT(av_open);
  WEFT_SLOT(cq_open);
  WEFT_SLOT(endpoint);
  WEFT_SLOT(scalable_ep);
  WEFT_SLOT(cntr_open);
  WEFT_SLOT(poll_open);
  WEFT_SLOT(stx_ctx);
  WEFT_SLOT(srx_ctx);
  WEFT_SLOT(query_atomic);
  WEFT_SLOT(query_collective);
  WEFT_SLOT(endpoint2);
  return table;
}

}  // namespace weft
