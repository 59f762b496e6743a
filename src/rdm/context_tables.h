// SPDX-License-Identifier: BSD-2-Clause
// The tables of scalable endpoints and of contexts: a transmit context takes no receives, a receive context takes
// nothing else, a scalable endpoint itself takes neither; fi_endpoint(3), SCALABLE ENDPOINTS and SHARED CONTEXTS.
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

// `ep` has the tables of an endpoint; receives answer -FI_EOPBADSTATE from now on, because they are posted to a shared
// context.
void leave_receives_to_context(fid_ep& ep, ContextTables& tables) noexcept;

// Every transfer call of `ep` answers -FI_ENOSYS.
void refuse_everything(fid_ep& ep) noexcept;

}  // namespace weft::rdm
