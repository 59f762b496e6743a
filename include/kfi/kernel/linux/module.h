// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/module.h>: a module is a program, whose main() calls its functions.
#ifndef KFI_LINUX_MODULE_H
#define KFI_LINUX_MODULE_H

#include <linux/kernel.h>
#include <linux/printk.h>

#define MODULE_LICENSE(text) extern int kfi_module_license
#define MODULE_AUTHOR(text) extern int kfi_module_author
#define MODULE_DESCRIPTION(text) extern int kfi_module_description
#define __init
#define __exit
#define module_init(function) static int (*const kfi_module_init)(void) = (function)
#define module_exit(function)                              \
  static void (*const kfi_module_exit)(void) = (function); \
  int main(void) {                                         \
    int result = kfi_module_init();                        \
    if (result == 0) kfi_module_exit();                    \
    return result == 0 ? 0 : 1;                            \
  }                                                        \
  extern int kfi_module_end

#endif  // KFI_LINUX_MODULE_H
