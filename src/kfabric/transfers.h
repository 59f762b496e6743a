// SPDX-License-Identifier: BSD-2-Clause
// The ops tables for an endpoint's transfers.
#pragma once

#include "kfabric/fabric.h"

namespace weft::kfabric {

extern const kfi_ops_msg kMessageOps;
extern const kfi_ops_rma kAccessOps;
extern const kfi_ops_tagged kTaggedOps;
extern const kfi_ops_atomic kAtomicOps;

}  // namespace weft::kfabric
