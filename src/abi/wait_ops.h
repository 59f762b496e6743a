// SPDX-License-Identifier: BSD-2-Clause
// The ops table of wait sets; fi_wait(3) governs the calls.
#pragma once

#include <rdma/fi_eq.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_wait make_wait_ops() noexcept {
  fi_ops_wait table{};
  table.size = sizeof table;
  WEFT_SLOT(wait);
  return table;
}

}  // namespace weft
