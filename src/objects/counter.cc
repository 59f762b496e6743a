// SPDX-License-Identifier: BSD-2-Clause
// Counters: the check of their attributes; fi_cntr(3).
#include "objects/counter.h"

namespace weft {

Status CounterCore::check(const fi_cntr_attr* attr, bool locking) {
  if (attr == nullptr) return Status(-FI_EINVAL);
  if (attr->flags != 0) return Status(-FI_EBADFLAGS);
  if (attr->events != FI_CNTR_EVENTS_COMP) return Status(-FI_ENOSYS);
  if (attr->wait_obj == FI_WAIT_MUTEX_COND && !locking) return Status(-FI_ENOSYS);
  return {};
}

}  // namespace weft
