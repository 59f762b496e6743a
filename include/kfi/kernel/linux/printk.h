// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/printk.h>: standard error.
#ifndef KFI_LINUX_PRINTK_H
#define KFI_LINUX_PRINTK_H

#include <stdio.h>

#define KERN_ERR ""
#define KERN_INFO ""
#define printk(...) fprintf(stderr, __VA_ARGS__)
#define pr_err(...) printk(__VA_ARGS__)
#define pr_info(...) printk(__VA_ARGS__)

#endif  // KFI_LINUX_PRINTK_H
