// SPDX-License-Identifier: BSD-2-Clause
// The ops table of completion queues; fi_cq(3) governs the calls.
#pragma once

#include <rdma/fi_eq.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_cq make_cq_ops() noexcept {
  fi_ops_cq table{};
  table.size = sizeof table;
  WEFT_SLOT(read);
  WEFT_SLOT(readfrom);
  WEFT_SLOT(readerr);
  WEFT_SLOT(sread);
  WEFT_SLOT(sreadfrom);
  WEFT_SLOT(signal);
  WEFT_SLOT(strerror);
  return table;
}

}  // namespace weft
