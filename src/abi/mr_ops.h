// SPDX-License-Identifier: BSD-2-Clause
// The ops table of memory registration; fi_mr(3) governs the calls.
#pragma once

#include <rdma/fi_domain.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_mr make_mr_ops() noexcept {
  fi_ops_mr table{};
  table.size = sizeof table;
  WEFT_SLOT(reg);
  WEFT_SLOT(regv);
  WEFT_SLOT(regattr);
  return table;
}

}  // namespace weft
