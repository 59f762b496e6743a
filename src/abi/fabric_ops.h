// SPDX-License-Identifier: BSD-2-Clause
// The ops table of fabrics; fi_fabric(3) governs the calls.
#pragma once

#include <rdma/fi_domain.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_fabric make_fabric_ops() noexcept {
  fi_ops_fabric table{};
  table.size = sizeof table;
  WEFT_SLOT(domain);
  WEFT_SLOT(passive_ep);
  WEFT_SLOT(eq_open);
  WEFT_SLOT(wait_open);
  WEFT_SLOT(trywait);
  WEFT_SLOT(domain2);
  return table;
}

}  // namespace weft
