// SPDX-License-Identifier: BSD-2-Clause
// The ops table of poll sets; fi_poll(3) governs the calls.
#pragma once

#include <rdma/fi_eq.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_poll make_poll_ops() noexcept {
  fi_ops_poll table{};
  table.size = sizeof table;
  WEFT_SLOT(poll);
  WEFT_SLOT(poll_add);
  WEFT_SLOT(poll_del);
  return table;
}

}  // namespace weft
