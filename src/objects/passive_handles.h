// SPDX-License-Identifier: BSD-2-Clause
// The part of a fabric that its passive endpoints use; fi_cm(3).
#pragma once

#include "objects/live_handles.h"
#include "objects/shared_info.h"

namespace weft {

// Owner: the fabric. Thread-safe.
struct PassiveHandles {
  LiveHandles requests;   // that the application has not answered; the fabric owns them
  LiveHandles endpoints;  // passive ones
  SharedInfo infos;       // infos of the passive endpoints
};

}  // namespace weft
