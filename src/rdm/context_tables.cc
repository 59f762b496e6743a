// SPDX-License-Identifier: BSD-2-Clause
// The tables of scalable endpoints and of contexts; see context_tables.h.
#include "rdm/context_tables.h"

#include "abi/atomic_ops.h"
#include "abi/msg_ops.h"
#include "abi/rma_ops.h"
#include "abi/tagged_ops.h"

namespace weft::rdm {
namespace {

struct Nothing {};
constexpr fi_ops_msg kNoMsg = make_msg_ops<Nothing>();
constexpr fi_ops_tagged kNoTagged = make_tagged_ops<Nothing>();
constexpr fi_ops_msg kMsgElsewhere = make_msg_ops<Nothing, FI_EOPBADSTATE>();
constexpr fi_ops_tagged kTaggedElsewhere = make_tagged_ops<Nothing, FI_EOPBADSTATE>();
constexpr fi_ops_rma kNoRma = make_rma_ops<Nothing>();
constexpr fi_ops_atomic kNoAtomic = make_atomic_ops<Nothing>();

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
  tables.msg = transmits ? merged(*ep.msg, kNoMsg) : merged(kNoMsg, *ep.msg);
  tables.tagged = transmits ? merged(*ep.tagged, kNoTagged) : merged(kNoTagged, *ep.tagged);
  ep.msg = &tables.msg;
  ep.tagged = &tables.tagged;
  if (transmits) return;
  ep.rma = slots(kNoRma);
  ep.atomic = slots(kNoAtomic);
}

void leave_receives_to_context(fid_ep& ep, ContextTables& tables) noexcept {
  tables = {merged(*ep.msg, kMsgElsewhere), merged(*ep.tagged, kTaggedElsewhere)};
  ep.msg = &tables.msg;
  ep.tagged = &tables.tagged;
}

void refuse_everything(fid_ep& ep) noexcept {
  ep.msg = slots(kNoMsg);
  ep.tagged = slots(kNoTagged);
  ep.rma = slots(kNoRma);
  ep.atomic = slots(kNoAtomic);
}

}  // namespace weft::rdm
