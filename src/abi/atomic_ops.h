// SPDX-License-Identifier: BSD-2-Clause
// The ops table of atomic operations; fi_atomic(3) governs the calls.
#pragma once

#include <rdma/fi_atomic.h>

#include "abi/bridge.h"

namespace weft {

// The methods carry the names of the public calls (without fi_), because one class fills this table and others.
template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_atomic make_atomic_ops() noexcept {
  fi_ops_atomic table{};
  table.size = sizeof table;
  WEFT_SLOT_AS(write, atomic);
  WEFT_SLOT_AS(writev, atomicv);
  WEFT_SLOT_AS(writemsg, atomicmsg);
  WEFT_SLOT_AS(inject, inject_atomic);
  WEFT_SLOT_AS(readwrite, fetch_atomic);
  WEFT_SLOT_AS(readwritev, fetch_atomicv);
  WEFT_SLOT_AS(readwritemsg, fetch_atomicmsg);
  WEFT_SLOT_AS(compwrite, compare_atomic);
  WEFT_SLOT_AS(compwritev, compare_atomicv);
  WEFT_SLOT_AS(compwritemsg, compare_atomicmsg);
  WEFT_SLOT_AS(writevalid, atomicvalid);
  WEFT_SLOT_AS(readwritevalid, fetch_atomicvalid);
  WEFT_SLOT_AS(compwritevalid, compare_atomicvalid);
  return table;
}

}  // namespace weft
