// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/scatterlist.h>: arrays of pieces, which may be chained.
#ifndef KFI_LINUX_SCATTERLIST_H
#define KFI_LINUX_SCATTERLIST_H

#include <linux/mm.h>
#include <string.h>

#include "../../kfi_kernel_types.h"

#define SG_CHAIN 1ul
#define SG_END 2ul

struct sg_table {
  struct scatterlist* sgl;
  unsigned int nents;
  unsigned int orig_nents;
};

static inline void sg_mark_end(struct scatterlist* sg) {
  sg->page_link |= SG_END;
  sg->page_link &= ~SG_CHAIN;
}

static inline void sg_init_table(struct scatterlist* sgl, unsigned int count) {
  memset(sgl, 0, count * sizeof *sgl);
  sg_mark_end(&sgl[count - 1]);
}

static inline void sg_set_page(struct scatterlist* sg, struct page* page, unsigned int len, unsigned int offset) {
  sg->page_link = (sg->page_link & (SG_CHAIN | SG_END)) | (unsigned long)(uintptr_t)page;
  sg->offset = offset;
  sg->length = len;
}

static inline void sg_set_buf(struct scatterlist* sg, const void* buf, unsigned int len) {
  sg_set_page(sg, virt_to_page(buf), len, (unsigned int)offset_in_page(buf));
}

static inline void sg_init_one(struct scatterlist* sg, const void* buf, unsigned int len) {
  sg_init_table(sg, 1);
  sg_set_buf(sg, buf, len);
}

// The last entry of `array`, which has `count`, becomes the link to the next array.
static inline void sg_chain(struct scatterlist* array, unsigned int count, struct scatterlist* next) {
  array[count - 1].offset = 0;
  array[count - 1].length = 0;
  array[count - 1].page_link = ((unsigned long)(uintptr_t)next | SG_CHAIN) & ~SG_END;
}

static inline struct scatterlist* sg_next(struct scatterlist* sg) {
  if (sg->page_link & SG_END) return NULL;
  sg++;
  return sg->page_link & SG_CHAIN ? (struct scatterlist*)(uintptr_t)(sg->page_link & ~(SG_CHAIN | SG_END)) : sg;
}

static inline struct page* sg_page(const struct scatterlist* sg) {
  return (struct page*)(uintptr_t)(sg->page_link & ~(SG_CHAIN | SG_END));
}
static inline void* sg_virt(const struct scatterlist* sg) {
  return (char*)page_address(sg_page(sg)) + sg->offset;
}

#define sg_dma_address(sg) ((sg)->dma_address)
#define sg_dma_len(sg) ((sg)->dma_length)
#define for_each_sg(sglist, sg, nr, i) for (i = 0, sg = (sglist); i < (nr); i++, sg = sg_next(sg))

#endif  // KFI_LINUX_SCATTERLIST_H
