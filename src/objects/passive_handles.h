// SPDX-License-Identifier: BSD-2-Clause
// The state that the passive endpoints of a provider share; fi_cm(3).
#pragma once

#include "objects/live_handles.h"

namespace weft {

// Owner: the provider, for all its fabrics. Thread-safe.
struct PassiveHandles {
  LiveHandles requests;   // that the application has not answered; their fabric owns them
  LiveHandles endpoints;  // passive ones
};

}  // namespace weft
