// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/mm.h>. A page is its own memory, so any memory has pages, and members of a page do not compile.
#ifndef KFI_LINUX_MM_H
#define KFI_LINUX_MM_H

#include <linux/types.h>
#include <stdlib.h>

#ifndef __cplusplus
void* aligned_alloc(size_t alignment, size_t size);  // which <stdlib.h> leaves out before C11
#endif

#define PAGE_SHIFT 12
#define PAGE_SIZE (1ul << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))

struct page {
  unsigned char memory[PAGE_SIZE];
};

static inline void* page_address(const struct page* page) {
  return (void*)(uintptr_t)page;
}
static inline struct page* virt_to_page(const void* address) {
  return (struct page*)((uintptr_t)address & PAGE_MASK);
}
static inline unsigned long offset_in_page(const void* address) {
  return (uintptr_t)address & ~PAGE_MASK;
}

static inline struct page* alloc_pages(gfp_t flags, unsigned int order) {
  (void)flags;
  return (struct page*)aligned_alloc(PAGE_SIZE, PAGE_SIZE << order);
}

static inline void __free_pages(struct page* page, unsigned int order) {
  (void)order;
  free(page);
}

#endif  // KFI_LINUX_MM_H
