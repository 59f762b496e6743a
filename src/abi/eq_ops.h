// SPDX-License-Identifier: BSD-2-Clause
// The ops table of event queues; fi_eq(3) governs the calls.
#pragma once

#include <rdma/fi_eq.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_eq make_eq_ops() noexcept {
  fi_ops_eq table{};
  table.size = sizeof table;
  WEFT_SLOT(read);
  WEFT_SLOT(readerr);
  WEFT_SLOT(write);
  WEFT_SLOT(sread);
  WEFT_SLOT(strerror);
  return table;
}

}  // namespace weft
