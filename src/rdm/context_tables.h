// SPDX-License-Identifier: BSD-2-Clause
// The tables of scalable endpoints and of contexts: a transmit context has no receive calls, a receive context no
// others, a scalable endpoint itself none at all; fi_endpoint(3), SCALABLE ENDPOINTS and SHARED CONTEXTS.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

namespace weft::rdm {

struct ContextTables {
  fi_ops_msg msg;
  fi_ops_tagged tagged;
};

// Replaces the endpoint tables of `ep` by those of a context; `tables` stores two of them.
void restrict_to_context(fid_ep& ep, ContextTables& tables, bool transmits) noexcept;

// Receive calls of `ep` return -FI_EOPBADSTATE from now on, because receives are posted to a shared context.
void leave_receives_to_context(fid_ep& ep, ContextTables& tables) noexcept;

}  // namespace weft::rdm
