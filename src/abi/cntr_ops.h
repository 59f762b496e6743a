// SPDX-License-Identifier: BSD-2-Clause
// The ops table of counters; fi_cntr(3) governs the calls.
#pragma once

#include <rdma/fi_eq.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_cntr make_cntr_ops() noexcept {
  fi_ops_cntr table{};
  table.size = sizeof table;
  WEFT_SLOT(read);
  WEFT_SLOT(readerr);
  WEFT_SLOT(add);
  WEFT_SLOT(set);
  WEFT_SLOT(wait);
  WEFT_SLOT(adderr);
  WEFT_SLOT(seterr);
  return table;
}

}  // namespace weft
