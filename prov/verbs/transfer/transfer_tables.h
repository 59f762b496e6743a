// SPDX-License-Identifier: BSD-2-Clause
// The tables of transfer calls that an endpoint carries in each of its states, so that no call checks the state.
#pragma once

#include "abi/atomic_ops.h"
#include "abi/msg_ops.h"
#include "abi/rma_ops.h"

namespace weft::verbs {

struct TransferTables {
  fi_ops_msg msg;
  fi_ops_rma rma;
  fi_ops_atomic atomic;
};
template <class T, int Missing>
constexpr TransferTables make_tables() noexcept {
  return {make_msg_ops<T, Missing>(), make_rma_ops<T, Missing>(), make_atomic_ops<T, Missing>()};
}

inline void install(fid_ep& ep, const TransferTables& tables) noexcept {
  ep.msg = slots(tables.msg);
  ep.rma = slots(tables.rma);
  ep.atomic = slots(tables.atomic);
}

}  // namespace weft::verbs
