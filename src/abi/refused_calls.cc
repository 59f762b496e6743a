// SPDX-License-Identifier: BSD-2-Clause
// Tables in which every call answers -FI_ENOSYS, for an endpoint whose class has none of its own: the calls of
// fi_msg(3), fi_rma(3), fi_tagged(3), fi_atomic(3) and fi_collective(3) read their table without a check.
#include <rdma/fi_collective.h>

#include "abi/atomic_ops.h"
#include "abi/bridge.h"
#include "abi/cm_ops.h"
#include "abi/ep_ops.h"
#include "abi/msg_ops.h"
#include "abi/rma_ops.h"
#include "abi/tagged_ops.h"

namespace weft {
namespace {

struct NoCalls : Object<fid_ep> {};

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_collective make_collective_ops() noexcept {
  fi_ops_collective table{};
  table.size = sizeof table;
  WEFT_SLOT(barrier);
  WEFT_SLOT(broadcast);
  WEFT_SLOT(alltoall);
  WEFT_SLOT(allreduce);
  WEFT_SLOT(allgather);
  WEFT_SLOT(reduce_scatter);
  WEFT_SLOT(reduce);
  WEFT_SLOT(scatter);
  WEFT_SLOT(gather);
  WEFT_SLOT(msg);
  WEFT_SLOT(barrier2);
  return table;
}

constexpr fi_ops_ep kEndpoint = make_ep_ops<NoCalls>();
constexpr fi_ops_cm kConnection = make_cm_ops<NoCalls>();
constexpr fi_ops_msg kMessages = make_msg_ops<NoCalls>();
constexpr fi_ops_rma kMemory = make_rma_ops<NoCalls>();
constexpr fi_ops_tagged kTagged = make_tagged_ops<NoCalls>();
constexpr fi_ops_atomic kAtomic = make_atomic_ops<NoCalls>();
constexpr fi_ops_collective kCollective = make_collective_ops<NoCalls>();

}  // namespace

void refuse_calls(fid_ep& endpoint) noexcept {
  endpoint.ops = slots(kEndpoint);
  endpoint.cm = slots(kConnection);
  endpoint.msg = slots(kMessages);
  endpoint.rma = slots(kMemory);
  endpoint.tagged = slots(kTagged);
  endpoint.atomic = slots(kAtomic);
  endpoint.collective = slots(kCollective);
}

}  // namespace weft
