// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/slab.h>: memory of the heap, zeroed on request.
#ifndef KFI_LINUX_SLAB_H
#define KFI_LINUX_SLAB_H

#include <linux/types.h>
#include <stdlib.h>

#define GFP_KERNEL 0u
#define GFP_ATOMIC 1u

static inline void* kmalloc(size_t size, gfp_t flags) {
  (void)flags;
  return malloc(size);
}

static inline void* kzalloc(size_t size, gfp_t flags) {
  (void)flags;
  return calloc(1, size);
}

static inline void* kcalloc(size_t count, size_t size, gfp_t flags) {
  (void)flags;
  return calloc(count, size);
}

static inline void kfree(const void* memory) {
  free((void*)(uintptr_t)memory);
}

#endif  // KFI_LINUX_SLAB_H
