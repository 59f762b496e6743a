// SPDX-License-Identifier: BSD-2-Clause
// The ops table of endpoints, active and passive; fi_endpoint(3) governs the calls.
#pragma once

#include <rdma/fi_endpoint.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_ep make_ep_ops() noexcept {
  fi_ops_ep table{};
  table.size = sizeof table;
  WEFT_SLOT(cancel);
  WEFT_SLOT(getopt);
  WEFT_SLOT(setopt);
  WEFT_SLOT(tx_ctx);
  WEFT_SLOT(rx_ctx);
  WEFT_SLOT(rx_size_left);
  WEFT_SLOT(tx_size_left);
  return table;
}

}  // namespace weft
