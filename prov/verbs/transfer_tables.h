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
// Nothing may be posted, receives may, everything may, nothing may any more.
struct TransferStates {
  TransferTables before, receiving, open, after;
};

template <class T, int Missing>
constexpr TransferTables make_tables() noexcept {
  return {make_msg_ops<T, Missing>(), make_rma_ops<T, Missing>(), make_atomic_ops<T, Missing>()};
}

}  // namespace weft::verbs
