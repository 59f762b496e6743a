// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/completion.h>. A wait polls every 50 microseconds.
#ifndef KFI_LINUX_COMPLETION_H
#define KFI_LINUX_COMPLETION_H

#include <time.h>

#include "../../kfi_kernel_types.h"

static inline void init_completion(struct completion* completion) {
  __atomic_store_n(&completion->done, 0u, __ATOMIC_SEQ_CST);
}

static inline void complete(struct completion* completion) {
  __atomic_add_fetch(&completion->done, 1u, __ATOMIC_SEQ_CST);
}

static inline void wait_for_completion(struct completion* completion) {
  const struct timespec pause = {0, 50000};
  unsigned int done = 0;
  for (;;) {
    done = __atomic_load_n(&completion->done, __ATOMIC_SEQ_CST);
    if (done == 0) {
      nanosleep(&pause, NULL);
    } else if (__atomic_compare_exchange_n(&completion->done, &done, done - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      return;
    }
  }
}

#endif  // KFI_LINUX_COMPLETION_H
