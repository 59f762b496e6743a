// SPDX-License-Identifier: BSD-2-Clause
//
// Names of the extensions of HPE's provider, so that code for it compiles. kfi_open_ops answers -KFI_ENOSYS for both
// tables, which such code accepts.
#ifndef KFI_CXI_EXT_H
#define KFI_CXI_EXT_H

#include "kfabric.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KFI_CXI_FAB_OPS_1 "cxi_fab_ops_v1"
#define KFI_CXI_DOM_OPS_1 "cxi_dom_ops_v1"

struct device;

struct kfi_cxi_fabric_ops {
  int (*enable_dynamic_rsrc_alloc)(struct kfid* fid, bool enable);
};

struct kfi_cxi_domain_ops {
  int (*get_device)(struct kfid* fid, struct device** dev);
};

// An address of that provider: 8 bytes.
__extension__ struct kcxi_addr {
  __extension__ union {
    __extension__ struct {
      uint32_t pid : 12;
      uint32_t nic : 20;
      uint32_t flags : 10;
    };
    uint64_t qw;
  };
};

#ifdef __cplusplus
}
#endif

#endif  // KFI_CXI_EXT_H
