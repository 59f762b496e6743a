// SPDX-License-Identifier: BSD-2-Clause
//
// Triggered operations: transfers that wait in the provider until a counter reaches a threshold.
// Governing page: fi_trigger(3).
//
// Two forms exist: post a transfer with FI_TRIGGER and a triggered context as its `context`, or
// pass a fi_deferred_work to fi_control(&domain->fid, FI_QUEUE_WORK, work). Both need the domain
// capability FI_TRIGGER; without it the first is -FI_EBADFLAGS, the second -FI_ENOSYS. Context and
// work structures belong to the provider until the operation completes or is cancelled with
// FI_CANCEL_WORK / FI_FLUSH_WORK.
#ifndef FI_TRIGGER_H
#define FI_TRIGGER_H

#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fi_trigger_event {
  FI_TRIGGER_THRESHOLD,  // a counter reaches a value
  FI_TRIGGER_XPU,        // a device stores to addresses the provider names
};

// The operation of a deferred work request.
enum fi_op_type {
  FI_OP_RECV,
  FI_OP_SEND,
  FI_OP_TRECV,
  FI_OP_TSEND,
  FI_OP_READ,
  FI_OP_WRITE,
  FI_OP_ATOMIC,
  FI_OP_FETCH_ATOMIC,
  FI_OP_COMPARE_ATOMIC,
  FI_OP_CNTR_SET,
  FI_OP_CNTR_ADD
};

// Fires when cntr's success value is at least `threshold`.
struct fi_trigger_threshold {
  struct fid_cntr* cntr;
  size_t threshold;
};

// One store that the device makes: `count` elements of `datatype` to `addr`.
struct fi_trigger_var {
  enum fi_datatype datatype;
  int count;
  void* addr;
  union {
    uint8_t val8;
    uint16_t val16;
    uint32_t val32;
    uint64_t val64;
    uint8_t* data;
  } value;
};

// `count` stores in `var`, filled in by the provider for the device named by iface and device.
struct fi_trigger_xpu {
  int count;
  enum fi_hmem_iface iface;
  union {
    uint64_t reserved;
    int cuda;
    int ze;
  } device;
  struct fi_trigger_var* var;
};

// The arguments of one transfer, by kind of transfer.
struct fi_op_msg {
  struct fid_ep* ep;
  struct fi_msg msg;
  uint64_t flags;
};

struct fi_op_tagged {
  struct fid_ep* ep;
  struct fi_msg_tagged msg;
  uint64_t flags;
};

struct fi_op_rma {
  struct fid_ep* ep;
  struct fi_msg_rma msg;
  uint64_t flags;
};

struct fi_op_atomic {
  struct fid_ep* ep;
  struct fi_msg_atomic msg;
  uint64_t flags;
};

struct fi_op_fetch_atomic {
  struct fid_ep* ep;
  struct fi_msg_atomic msg;
  struct fi_msg_fetch fetch;
  uint64_t flags;
};

struct fi_op_compare_atomic {
  struct fid_ep* ep;
  struct fi_msg_atomic msg;
  struct fi_msg_fetch fetch;
  struct fi_msg_compare compare;
  uint64_t flags;
};

struct fi_op_cntr {
  struct fid_cntr* cntr;
  uint64_t value;
};

#ifdef FABRIC_DIRECT
#include <rdma/fi_direct_trigger.h>
#endif

#ifndef FABRIC_DIRECT_TRIGGER

// The `context` of a transfer posted with FI_TRIGGER: as large as struct fi_context ...
struct fi_triggered_context {
  enum fi_trigger_event event_type;
  union {
    struct fi_trigger_threshold threshold;
    struct fi_trigger_xpu xpu;
    void* internal[3];
  } trigger;
};

// ... or as struct fi_context2, when mode FI_CONTEXT2 is in force.
struct fi_triggered_context2 {
  enum fi_trigger_event event_type;
  union {
    struct fi_trigger_threshold threshold;
    struct fi_trigger_xpu xpu;
    void* internal[7];
  } trigger;
};

// The argument of FI_QUEUE_WORK: once triggering_cntr reaches `threshold`, do `op`; its completion
// counts on completion_cntr and writes nothing to a CQ. fi_trigger(3) "DEFERRED WORK QUEUES".
struct fi_deferred_work {
  struct fi_context2 context;  // the provider's scratch space
  uint64_t threshold;
  struct fid_cntr* triggering_cntr;
  struct fid_cntr* completion_cntr;
  enum fi_op_type op_type;  // which member of `op` is set
  union {
    struct fi_op_msg* msg;
    struct fi_op_tagged* tagged;
    struct fi_op_rma* rma;
    struct fi_op_atomic* atomic;
    struct fi_op_fetch_atomic* fetch_atomic;
    struct fi_op_compare_atomic* compare_atomic;
    struct fi_op_cntr* cntr;
  } op;
};

#endif  // FABRIC_DIRECT_TRIGGER

#ifdef __cplusplus
}
#endif

#endif  // FI_TRIGGER_H
