// SPDX-License-Identifier: BSD-2-Clause
// The tables of transfer calls that an endpoint carries in each of its states, so that no call checks the state.
#pragma once

#include "abi/ops.h"

namespace weft::verbs {

struct TransferTables {
  fi_ops_msg msg;
  fi_ops_rma rma;
  fi_ops_atomic atomic;
};
template <class T, int Missing>
constexpr TransferTables make_tables() noexcept {
  return {kOps<fi_ops_msg, T, Missing>, kOps<fi_ops_rma, T, Missing>, kOps<fi_ops_atomic, T, Missing>};
}

inline void install(fid_ep& ep, const TransferTables& tables) noexcept {
  ep.msg = slots(tables.msg);
  ep.rma = slots(tables.rma);
  ep.atomic = slots(tables.atomic);
}

}  // namespace weft::verbs
