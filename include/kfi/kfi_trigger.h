// SPDX-License-Identifier: BSD-2-Clause
//
// Triggered operations: names and values only. No call here takes them: KFI_TRIGGER is answered with -KFI_EBADFLAGS,
// the commands for deferred work with -KFI_ENOSYS.
#ifndef KFI_TRIGGER_H
#define KFI_TRIGGER_H

#include "kfabric.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kfi_trigger_event { KFI_TRIGGER_THRESHOLD };

enum kfi_op_type {
  KFI_OP_RECV,
  KFI_OP_SEND,
  KFI_OP_TRECV,
  KFI_OP_TSEND,
  KFI_OP_READ,
  KFI_OP_WRITE,
  KFI_OP_ATOMIC,
  KFI_OP_FETCH_ATOMIC,
  KFI_OP_COMPARE_ATOMIC,
  KFI_OP_CNTR_SET,
  KFI_OP_CNTR_ADD
};

struct kfi_trigger_threshold {
  struct kfid_cntr* cntr;
  size_t threshold;
};

struct kfi_triggered_context {
  enum kfi_trigger_event event_type;
  union {
    struct kfi_trigger_threshold threshold;
    void* internal[3];
  } trigger;
};

#ifdef __cplusplus
}
#endif

#endif  // KFI_TRIGGER_H
