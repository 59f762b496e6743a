// SPDX-License-Identifier: BSD-2-Clause
//
// Triggered operations: names, values and structures only. No call here takes them: KFI_TRIGGER is answered with
// -KFI_EBADFLAGS, the commands for deferred work with -KFI_ENOSYS.
//
// Deferred work came with API 1.7. The names of API 1.1 began with fi_, which are libfabric's here.
#ifndef KFI_TRIGGER_H
#define KFI_TRIGGER_H

#include "kfabric.h"
#include "kfi_atomic.h"
#include "kfi_endpoint.h"
#include "kfi_rma.h"
#include "kfi_tagged.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kfi_trigger_event { KFI_TRIGGER_THRESHOLD };

#if KFI_API >= 0x10007
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
#endif

struct kfi_trigger_threshold {
  struct kfid_cntr* cntr;
  size_t threshold;
};

// As large as struct kfi_context.
struct kfi_triggered_context {
  enum kfi_trigger_event event_type;
  union {
    struct kfi_trigger_threshold threshold;
    void* internal[3];
  } trigger;
};

#if KFI_API >= 0x10007
// As large as struct kfi_context2.
struct kfi_triggered_context2 {
  enum kfi_trigger_event event_type;
  union {
    struct kfi_trigger_threshold threshold;
    void* internal[7];
  } trigger;
};

// ---- Deferred work --------------------------------------------------------------------------------------------------

struct kfi_op_msg {
  struct kfid_ep* ep;
  struct kfi_msg msg;
  uint64_t flags;
};

struct kfi_op_tagged {
  struct kfid_ep* ep;
  struct kfi_msg_tagged msg;
  uint64_t flags;
};

struct kfi_op_rma {
  struct kfid_ep* ep;
  struct kfi_msg_rma msg;
  uint64_t flags;
};

struct kfi_op_atomic {
  struct kfid_ep* ep;
  struct kfi_msg_atomic msg;
  uint64_t flags;
};

struct kfi_op_fetch_atomic {
  struct kfid_ep* ep;
  struct kfi_msg_atomic msg;
  struct kfi_msg_fetch fetch;
  uint64_t flags;
};

struct kfi_op_compare_atomic;  // no kernel defines it

struct kfi_op_cntr {
  struct kfid_cntr* cntr;
  uint64_t value;
};

// `op_type` selects the member of `op`.
struct kfi_deferred_work {
  struct kfi_context2 context;
  uint64_t threshold;
  struct kfid_cntr* triggering_cntr;
  struct kfid_cntr* completion_cntr;
  enum kfi_op_type op_type;
  union {
    struct kfi_op_msg* msg;
    struct kfi_op_tagged* tagged;
    struct kfi_op_rma* rma;
    struct kfi_op_atomic* atomic;
    struct kfi_op_fetch_atomic* fetch_atomic;
    struct kfi_op_compare_atomic* compare_atomic;
    struct kfi_op_cntr* cntr;
  } op;
};
#endif

#ifdef __cplusplus
}
#endif

#endif  // KFI_TRIGGER_H
