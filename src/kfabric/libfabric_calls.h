// SPDX-License-Identifier: BSD-2-Clause
// libfabric's interface as libkfabric uses it. The calls with structures bind to the version node of release 1.8, which
// every later libfabric exports, so that one libkfabric.so.1 runs over weft and over the distribution's library. That
// node's fi_info has all members of kfi_info. An asm label would bind to the newest node.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

__asm__(".symver fi_getinfo, fi_getinfo@FABRIC_1.3");
__asm__(".symver fi_freeinfo, fi_freeinfo@FABRIC_1.3");

namespace weft::kfabric {

// The version requested from libfabric, whatever the client's: mr_mode is a set of bits in all of these.
inline uint32_t lower_version() {
  const uint32_t version = fi_version();
  return FI_VERSION_LT(version, FI_VERSION(2, 0)) ? version : FI_VERSION(2, 0);
}

}  // namespace weft::kfabric
