// SPDX-License-Identifier: BSD-2-Clause
// Tables in which every call answers -FI_ENOSYS, for an endpoint whose class has none of its own: the calls of
// fi_msg(3), fi_rma(3), fi_tagged(3), fi_atomic(3) and fi_collective(3) read their table without a check.
#include "abi/ops.h"

namespace weft {

void refuse_calls(fid_ep& endpoint) noexcept {
  endpoint.ops = ops_of<NoCalls>;
  endpoint.cm = ops_of<NoCalls>;
  endpoint.msg = ops_of<NoCalls>;
  endpoint.rma = ops_of<NoCalls>;
  endpoint.tagged = ops_of<NoCalls>;
  endpoint.atomic = ops_of<NoCalls>;
  endpoint.collective = ops_of<NoCalls>;
}

}  // namespace weft
