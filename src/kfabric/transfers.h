// SPDX-License-Identifier: BSD-2-Clause
// The tables of an endpoint's transfers.
#pragma once

#include "kfabric/fabric.h"

namespace weft::kfabric {

extern const kfi_ops_msg kMessageOps;
extern const kfi_ops_rma kAccessOps;
extern const kfi_ops_tagged kTaggedOps;
extern const kfi_ops_atomic kAtomicOps;

}  // namespace weft::kfabric
