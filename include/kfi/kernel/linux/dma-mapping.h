// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/dma-mapping.h>: an address for devices is the virtual address.
#ifndef KFI_LINUX_DMA_MAPPING_H
#define KFI_LINUX_DMA_MAPPING_H

#include <linux/scatterlist.h>

struct device;
enum dma_data_direction { DMA_BIDIRECTIONAL, DMA_TO_DEVICE, DMA_FROM_DEVICE, DMA_NONE };

static inline int dma_map_sg(struct device* device, struct scatterlist* sgl, int count,
                             enum dma_data_direction direction) {
  struct scatterlist* sg;
  int i;
  (void)device, (void)direction;
  for_each_sg(sgl, sg, count, i) {
    sg->dma_address = (dma_addr_t)(uintptr_t)sg_virt(sg);
    sg->dma_length = sg->length;
  }
  return count;
}

static inline void dma_unmap_sg(struct device* device, struct scatterlist* sgl, int count,
                                enum dma_data_direction direction) {
  struct scatterlist* sg;
  int i;
  (void)device, (void)direction;
  for_each_sg(sgl, sg, count, i) {
    sg->dma_address = 0;
    sg->dma_length = 0;
  }
}

static inline dma_addr_t dma_map_single(struct device* device, void* address, size_t size,
                                        enum dma_data_direction direction) {
  (void)device, (void)size, (void)direction;
  return (dma_addr_t)(uintptr_t)address;
}

#endif  // KFI_LINUX_DMA_MAPPING_H
