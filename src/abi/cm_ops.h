// SPDX-License-Identifier: BSD-2-Clause
// The ops table of connection management; fi_cm(3) governs the calls.
#pragma once

#include <rdma/fi_cm.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_cm make_cm_ops() noexcept {
  fi_ops_cm table{};
  table.size = sizeof table;
  WEFT_SLOT(setname);
  WEFT_SLOT(getname);
  WEFT_SLOT(getpeer);
  WEFT_SLOT(connect);
  WEFT_SLOT(listen);
  WEFT_SLOT(accept);
  WEFT_SLOT(reject);
  WEFT_SLOT(shutdown);
  WEFT_SLOT(join);
  return table;
}

}  // namespace weft
