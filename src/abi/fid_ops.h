// SPDX-License-Identifier: BSD-2-Clause
// The ops table of handles of any class; fi_endpoint(3) and its siblings governs the calls.
#pragma once

#include <rdma/fabric.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops make_fid_ops() noexcept {
  fi_ops table{};
  table.size = sizeof table;
  WEFT_SLOT(close);
  WEFT_SLOT(bind);
  WEFT_SLOT(control);
  WEFT_SLOT(ops_open);
  WEFT_SLOT(tostr);
  WEFT_SLOT(ops_set);
  return table;
}

}  // namespace weft
