// SPDX-License-Identifier: BSD-2-Clause
//
// The header of providers, as far as clients use it: API 1.1 declares kfi_allocinfo and kfi_deallocinfo in it, which
// kfabric.h has here. Registration of providers is not there.
#ifndef KFI_PROV_H
#define KFI_PROV_H

#include "kfabric.h"

#endif  // KFI_PROV_H
