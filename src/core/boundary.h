// SPDX-License-Identifier: BSD-2-Clause
// Every exported function uses these: default visibility, and a stop for exceptions of the standard library.
#pragma once

#include <rdma/fabric.h>

#include "abi/bridge.h"

// Symbols are hidden by default; the version script gives an exported symbol its node.
#define WEFT_EXPORT extern "C" __attribute__((visibility("default")))

namespace weft::core {
using weft::guarded;
}
