// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/bvec.h>.
#ifndef KFI_LINUX_BVEC_H
#define KFI_LINUX_BVEC_H

#include "../../kfi_kernel_types.h"

static inline void bvec_set_page(struct bio_vec* piece, struct page* page, unsigned int len, unsigned int offset) {
  piece->bv_page = page;
  piece->bv_len = len;
  piece->bv_offset = offset;
}

#endif  // KFI_LINUX_BVEC_H
