// SPDX-License-Identifier: BSD-2-Clause
// The tables of scalable endpoints and of contexts: a transmit context has no receive calls, a receive context no
// others, a scalable endpoint itself none at all; fi_endpoint(3), SCALABLE ENDPOINTS and SHARED CONTEXTS.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "abi/ops.h"

namespace weft::rdm {

struct NoCalls {};

struct ContextTables {
  fi_ops_msg msg;
  fi_ops_tagged tagged;
};

// `from` with the receive calls of `receives`. The slots of fi_ops_msg and fi_ops_tagged have the same names.
template <class Table>
Table merged(const Table& from, const Table& receives) noexcept {
  Table table = from;
  table.recv = receives.recv;
  table.recvv = receives.recvv;
  table.recvmsg = receives.recvmsg;
  return table;
}

// Replaces the endpoint tables of `ep` by those of a context; `tables` stores two of them.
inline void restrict_to_context(fid_ep& ep, ContextTables& tables, bool transmits) noexcept {
  tables.msg = transmits ? merged(*ep.msg, kOps<fi_ops_msg, NoCalls>) : merged(kOps<fi_ops_msg, NoCalls>, *ep.msg);
  tables.tagged =
      transmits ? merged(*ep.tagged, kOps<fi_ops_tagged, NoCalls>) : merged(kOps<fi_ops_tagged, NoCalls>, *ep.tagged);
  ep.msg = &tables.msg;
  ep.tagged = &tables.tagged;
  if (transmits) return;
  ep.rma = ops_of<NoCalls>;
  ep.atomic = ops_of<NoCalls>;
}

// Receive calls of `ep` return -FI_EOPBADSTATE from now on, because receives are posted to a shared context.
inline void leave_receives_to_context(fid_ep& ep, ContextTables& tables) noexcept {
  tables = {merged(*ep.msg, kOps<fi_ops_msg, NoCalls, FI_EOPBADSTATE>),
            merged(*ep.tagged, kOps<fi_ops_tagged, NoCalls, FI_EOPBADSTATE>)};
  ep.msg = &tables.msg;
  ep.tagged = &tables.tagged;
}

}  // namespace weft::rdm
