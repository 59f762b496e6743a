// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for the kernel's <linux/errno.h>: the system's header of that name, which <errno.h> needs.
#pragma GCC system_header  // #include_next is an extension
#include_next <linux/errno.h>
