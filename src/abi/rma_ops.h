// SPDX-License-Identifier: BSD-2-Clause
// The ops table of remote memory access; fi_rma(3) governs the calls.
#pragma once

#include <rdma/fi_rma.h>

#include "abi/bridge.h"

namespace weft {

// The methods carry the names of the public calls (without fi_), because one class fills this table and others.
template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_rma make_rma_ops() noexcept {
  fi_ops_rma table{};
  table.size = sizeof table;
  WEFT_SLOT(read);
  WEFT_SLOT(readv);
  WEFT_SLOT(readmsg);
  WEFT_SLOT(write);
  WEFT_SLOT(writev);
  WEFT_SLOT(writemsg);
  WEFT_SLOT_AS(inject, rma_inject);
  WEFT_SLOT(writedata);
  WEFT_SLOT_AS(injectdata, rma_injectdata);
  return table;
}

}  // namespace weft
