// SPDX-License-Identifier: BSD-2-Clause
// A kernel module's code on the stand-ins: pages, a chained and mapped scatter list, bio_vec, and a handler that
// completes a completion.
#include <linux/atomic.h>
#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/types.h>
#include <linux/uio.h>

#define MODULE_NAME "kfi_test"
#include <kfi_log.h>

#include "pair.h"

MODULE_LICENSE("Dual BSD/GPL");

enum { kPages = 10 };
static struct completion arrived;
static atomic_t received;

static void on_completion(struct kfid_cq* cq, void* context) {
  struct kfi_cq_msg_entry entry;
  while (kfi_cq_read(cq, &entry, 1) == 1) {
    if (entry.flags & KFI_RECV) {
      atomic_set((atomic_t*)context, (int)entry.len);
      complete(&arrived);
    }
  }
}

// Two arrays with a link, the pages in reverse order.
static struct scatterlist* list_of(struct page* pages, struct scatterlist* first, struct scatterlist* second) {
  int i;
  sg_init_table(first, kPages / 2 + 1);
  sg_init_table(second, kPages / 2);
  sg_chain(first, kPages / 2 + 1, second);
  for (i = 0; i < kPages; i++) {
    struct scatterlist* sg = i < kPages / 2 ? &first[i] : &second[i - kPages / 2];
    sg_set_page(sg, pages + (kPages - 1 - i), 100, 8);
  }
  return first;
}

static int __init start(void) {
  struct pair pair;
  struct scatterlist first[kPages / 2 + 1], second[kPages / 2], *list;
  struct bio_vec pieces[kPages];
  struct page* from = alloc_pages(GFP_KERNEL, 4);
  struct page* to = alloc_pages(GFP_KERNEL, 4);
  u8* want = (u8*)kzalloc(kPages, GFP_KERNEL);
  int i;
  if (!from || !to || !want) return -ENOMEM;
  init_completion(&arrived);
  memset(&pair, 0, sizeof pair);
  pair.cq_attr.format = KFI_CQ_FORMAT_MSG;
  pair.handler = on_completion;
  pair.handler_context = &received;
  open_pair(&pair, KFI_MSG);
  for (i = 0; i < kPages; i++) {
    want[i] = (u8)(i + 1);
    memset((char*)page_address(from + (kPages - 1 - i)) + 8, want[i], 100);
    bvec_set_page(&pieces[i], to + 2 * (i % 5) + i / 5, 100, 16);
  }
  list = list_of(from, first, second);
  CHECK(kfi_sendsgl(pair.ends[0].ep, list, NULL, kPages, KFI_ADDR_UNSPEC, NULL) == -EINVAL);
  CHECK(dma_map_sg(NULL, list, kPages, DMA_TO_DEVICE) == kPages);
  OK(kfi_recvbv(pair.ends[1].ep, pieces, NULL, kPages, KFI_ADDR_UNSPEC, NULL));
  OK(kfi_sendsgl(pair.ends[0].ep, list, NULL, kPages, KFI_ADDR_UNSPEC, NULL));
  wait_for_completion(&arrived);
  CHECK(atomic_read(&received) == 100 * kPages);
  for (i = 0; i < kPages; i++) {
    const u8* piece = (const u8*)page_address(pieces[i].bv_page) + 16;
    CHECK(piece[0] == want[i] && piece[99] == want[i]);
  }
  close_pair(&pair);
  __free_pages(from, 4);
  __free_pages(to, 4);
  kfree(want);
  return 0;
}

static void __exit stop(void) {
  LOG_DEBUG("not written, but compiled: %d", kPages);
  LOG_INFO("unloaded after %d pages", kPages);
}

module_init(start);
module_exit(stop);
