// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for the kernel's <linux/types.h>, beside the system's header of that name, which libc needs.
#pragma GCC system_header  // #include_next is an extension
#include_next <linux/types.h>
#ifndef KFI_LINUX_TYPES_H
#define KFI_LINUX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef unsigned int gfp_t;

#endif  // KFI_LINUX_TYPES_H
