// SPDX-License-Identifier: BSD-2-Clause
// The ops table of tagged messages; fi_tagged(3) governs the calls.
#pragma once

#include <rdma/fi_tagged.h>

#include "abi/bridge.h"

namespace weft {

// The methods carry the names of the public calls (without fi_), because one class fills this table and others.
template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_tagged make_tagged_ops() noexcept {
  fi_ops_tagged table{};
  table.size = sizeof table;
  WEFT_SLOT_AS(recv, trecv);
  WEFT_SLOT_AS(recvv, trecvv);
  WEFT_SLOT_AS(recvmsg, trecvmsg);
  WEFT_SLOT_AS(send, tsend);
  WEFT_SLOT_AS(sendv, tsendv);
  WEFT_SLOT_AS(sendmsg, tsendmsg);
  WEFT_SLOT_AS(inject, tinject);
  WEFT_SLOT_AS(senddata, tsenddata);
  WEFT_SLOT_AS(injectdata, tinjectdata);
  return table;
}

}  // namespace weft
