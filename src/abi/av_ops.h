// SPDX-License-Identifier: BSD-2-Clause
// The ops table of address vectors; fi_av(3) governs the calls.
#pragma once

#include <rdma/fi_domain.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_av make_av_ops() noexcept {
  fi_ops_av table{};
  table.size = sizeof table;
  WEFT_SLOT(insert);
  WEFT_SLOT(insertsvc);
  WEFT_SLOT(insertsym);
  WEFT_SLOT(remove);
  WEFT_SLOT(lookup);
  WEFT_SLOT(straddr);
  WEFT_SLOT(av_set);
  WEFT_SLOT(insert_auth_key);
  WEFT_SLOT(lookup_auth_key);
  WEFT_SLOT(set_user_id);
  return table;
}

}  // namespace weft
