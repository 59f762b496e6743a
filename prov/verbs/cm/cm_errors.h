// SPDX-License-Identifier: BSD-2-Clause
// Connection failures: (phase, rdma_cm event, status) becomes a fabric errno and a sentence for fi_eq_readerr and
// fi_eq_strerror of fi_eq(3); rdma_get_cm_event(3). docs/providers/verbs-errors.md shows the table.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

namespace weft::verbs {

enum class CmPhase : std::uint8_t { kWaiting, kAddress, kRoute, kRequest, kAnswer, kListen };
// For example "resolving the route": completes "... while ...".
const char* phase_name(CmPhase phase) noexcept;

struct CmFailure {
  int error = 0;   // positive fi_errno
  int native = 0;  // fi_eq_err_entry::prov_errno: the negated status, as in libfabric
  const char* reason = "";
  bool retryable = false;  // the cause may be temporary: worth another try before the deadline
};

// Explains an event of a failed connection. RDMA_CM_EVENT_REJECTED carries a reason of the InfiniBand CM (positive;
// iWARP: -errno), the others -errno.
CmFailure explain(CmPhase phase, rdma_cm_event_type event, int status) noexcept;
// Explains the errno of a failed call of librdmacm or libibverbs.
CmFailure explain_errno(CmPhase phase, int error) noexcept;

}  // namespace weft::verbs
