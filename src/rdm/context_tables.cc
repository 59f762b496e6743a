// SPDX-License-Identifier: BSD-2-Clause
// The tables of scalable endpoints and of contexts; see context_tables.h.
#include "rdm/context_tables.h"

#include "abi/ops.h"

namespace weft::rdm {
namespace {

struct Nothing {};

// `from` with the receive calls of `receives`. The slots of fi_ops_msg and fi_ops_tagged have the same names.
template <class Table>
Table merged(const Table& from, const Table& receives) noexcept {
  Table table = from;
  table.recv = receives.recv;
  table.recvv = receives.recvv;
  table.recvmsg = receives.recvmsg;
  return table;
}

}  // namespace

void restrict_to_context(fid_ep& ep, ContextTables& tables, bool transmits) noexcept {
  tables.msg = transmits ? merged(*ep.msg, kOps<fi_ops_msg, Nothing>) : merged(kOps<fi_ops_msg, Nothing>, *ep.msg);
  tables.tagged =
      transmits ? merged(*ep.tagged, kOps<fi_ops_tagged, Nothing>) : merged(kOps<fi_ops_tagged, Nothing>, *ep.tagged);
  ep.msg = &tables.msg;
  ep.tagged = &tables.tagged;
  if (transmits) return;
  ep.rma = ops_of<Nothing>;
  ep.atomic = ops_of<Nothing>;
}

void leave_receives_to_context(fid_ep& ep, ContextTables& tables) noexcept {
  tables = {merged(*ep.msg, kOps<fi_ops_msg, Nothing, FI_EOPBADSTATE>),
            merged(*ep.tagged, kOps<fi_ops_tagged, Nothing, FI_EOPBADSTATE>)};
  ep.msg = &tables.msg;
  ep.tagged = &tables.tagged;
}

}  // namespace weft::rdm
