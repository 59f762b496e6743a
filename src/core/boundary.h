// SPDX-License-Identifier: BSD-2-Clause
// What every exported function needs: default visibility, and a stop for exceptions of the standard library.
#pragma once

#include <rdma/fabric.h>

#include "abi/bridge.h"

// Everything is hidden unless it says otherwise; the version script then gives the symbol its node.
#define WEFT_EXPORT extern "C" __attribute__((visibility("default")))

namespace weft::core {

// Calls `body`; what it throws becomes its error code.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return error_from_current_exception();
  }
}

}  // namespace weft::core
