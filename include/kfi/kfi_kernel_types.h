// SPDX-License-Identifier: BSD-2-Clause
//
// The kernel's types that kfabric's own structures contain, for programs in user space: the pieces of scatter lists,
// two members of struct kfid, and the head of a wait queue. <kfi/linux/...> has the calls for them. A program that has
// such types of its own, with these layouts, defines KFI_OWN_KERNEL_TYPES first.
#ifndef KFI_KERNEL_TYPES_H
#define KFI_KERNEL_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifndef KFI_OWN_KERNEL_TYPES

#ifdef __cplusplus
extern "C" {
#endif

// A page is its own memory: the address of the structure is the address of the page.
struct page;

typedef uint64_t dma_addr_t;  // a virtual address in user space

struct kvec {
  void* iov_base;
  size_t iov_len;  // bytes
};

struct bio_vec {
  struct page* bv_page;
  unsigned int bv_len;     // bytes
  unsigned int bv_offset;  // bytes from the start of the page
};

// One entry of a list. Bit 0 of page_link marks a link to the next array, bit 1 the last entry. dma_address is 0 until
// the list is mapped.
struct scatterlist {
  unsigned long page_link;
  unsigned int offset;  // bytes
  unsigned int length;
  dma_addr_t dma_address;
  unsigned int dma_length;
};

struct completion {
  unsigned int done;  // completions that no wait has taken
};

typedef struct {
  int counter;
} atomic_t;

// KFI_WAIT_QUEUE: the word that sleepers watch. Each wake-up adds one.
struct wait_queue_head {
  unsigned int wakes;
};

#ifdef __cplusplus
}
#endif

#endif  // KFI_OWN_KERNEL_TYPES

#endif  // KFI_KERNEL_TYPES_H
