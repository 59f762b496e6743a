// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/kernel.h>.
#ifndef KFI_LINUX_KERNEL_H
#define KFI_LINUX_KERNEL_H

#include <linux/types.h>

#ifndef container_of
#define container_of(ptr, type, member) ((type*)((char*)(ptr)-offsetof(type, member)))
#endif
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif  // KFI_LINUX_KERNEL_H
