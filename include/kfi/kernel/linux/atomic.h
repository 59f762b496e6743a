// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/atomic.h>.
#ifndef KFI_LINUX_ATOMIC_H
#define KFI_LINUX_ATOMIC_H

#include "../../kfi_kernel_types.h"

static inline int atomic_read(const atomic_t* value) {
  return __atomic_load_n(&value->counter, __ATOMIC_SEQ_CST);
}
static inline void atomic_set(atomic_t* value, int to) {
  __atomic_store_n(&value->counter, to, __ATOMIC_SEQ_CST);
}
static inline void atomic_inc(atomic_t* value) {
  __atomic_add_fetch(&value->counter, 1, __ATOMIC_SEQ_CST);
}
static inline int atomic_dec_and_test(atomic_t* value) {
  return __atomic_sub_fetch(&value->counter, 1, __ATOMIC_SEQ_CST) == 0;
}

#endif  // KFI_LINUX_ATOMIC_H
