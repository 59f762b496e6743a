// SPDX-License-Identifier: BSD-2-Clause
// What a failed connection is told: (phase, rdma_cm event, status) becomes a fabric errno and a sentence; fi_eq(3)
// fi_eq_readerr and fi_eq_strerror, rdma_get_cm_event(3). docs/providers/verbs.md shows the table.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

namespace weft::verbs {

enum class CmPhase : std::uint8_t { kWaiting, kAddress, kRoute, kRequest, kAnswer, kListen };
// "resolving the route": completes "... while ...".
const char* phase_name(CmPhase phase) noexcept;

struct CmFailure {
  int error = 0;   // positive fi_errno
  int native = 0;  // fi_eq_err_entry::prov_errno: the negated status, as libfabric gives it
  const char* reason = "";
  bool again = false;  // may go away: worth another try inside the deadline
};

// An event that says a connection failed. REJECTED carries the reason of the InfiniBand CM (positive; iWARP: -errno),
// the others -errno.
CmFailure explain(CmPhase phase, rdma_cm_event_type event, int status) noexcept;
// A call of librdmacm or libibverbs that failed with this errno.
CmFailure explain_errno(CmPhase phase, int error) noexcept;

}  // namespace weft::verbs
