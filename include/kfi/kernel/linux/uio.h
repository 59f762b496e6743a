// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for the kernel's <linux/uio.h>: struct kvec, and the system's structure, which libc has elsewhere.
#ifndef KFI_LINUX_UIO_H
#define KFI_LINUX_UIO_H

#include <sys/uio.h>

#include "../../kfi_kernel_types.h"

#endif  // KFI_LINUX_UIO_H
