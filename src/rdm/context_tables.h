// SPDX-License-Identifier: BSD-2-Clause
// The tables of scalable endpoints and their contexts: a transmit context takes no receives, a receive context takes
// nothing else, the endpoint itself takes neither; fi_endpoint(3), SCALABLE ENDPOINTS.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

namespace weft::rdm {

struct ContextTables {
  fi_ops_msg msg;
  fi_ops_tagged tagged;
};

// `ep` has the tables of an endpoint, and gets those of a context, of which `tables` holds some.
void restrict_to_context(fid_ep& ep, ContextTables& tables, bool transmits) noexcept;

// Every transfer call of `ep` answers -FI_ENOSYS.
void refuse_everything(fid_ep& ep) noexcept;

}  // namespace weft::rdm
