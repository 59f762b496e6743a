// SPDX-License-Identifier: BSD-2-Clause
//
// Atomic operations on remote memory: update it, fetch and update, compare and update. Governing
// page: fi_atomic(3).
//
// Counts are elements of the datatype, not bytes. fi_query_atomic reports the supported (datatype,
// op) pairs and the elements per call; any other pair is -FI_EOPNOTSUPP. Remote memory is named as
// in fi_rma(3), and must be registered with FI_REMOTE_WRITE (update) or FI_REMOTE_READ |
// FI_REMOTE_WRITE (fetch, compare). Each element is updated atomically with respect to other fabric
// atomics; the whole array is not. Every transfer posts one operation and returns 0, or returns a
// negative fi_errno and has no effect: -FI_EAGAIN (queue full, read completions and post again),
// -FI_EOPBADSTATE (not enabled or not connected), -FI_EINVAL, -FI_EMSGSIZE, -FI_ENOSYS (opened
// without FI_ATOMIC). `result` and `compare` buffers belong to the provider until the completion.
// `desc`, `context` and fi_addr_t arguments are those of fi_msg(3).
#ifndef FI_ATOMIC_H
#define FI_ATOMIC_H

#include <stdint.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#ifdef __cplusplus
extern "C" {
#endif

// Flags of fi_query_atomic: query the fetching or the comparing calls.
#define FI_FETCH_ATOMIC (1ULL << 58)
#define FI_COMPARE_ATOMIC (1ULL << 59)

// The result of fi_query_atomic.
struct fi_atomic_attr {
  size_t count;  // elements per call
  size_t size;   // bytes per element
};

// One update in long form. Both lists must hold the same number of elements.
struct fi_msg_atomic {
  const struct fi_ioc* msg_iov;  // local operands
  void** desc;
  size_t iov_count;
  fi_addr_t addr;
  const struct fi_rma_ioc* rma_iov;  // remote operands
  size_t rma_iov_count;
  enum fi_datatype datatype;
  enum fi_op op;
  void* context;
  uint64_t data;  // remote CQ data, sent when the flags hold FI_REMOTE_CQ_DATA
};

// Destination of a fetch's old remote values (used by deferred work, fi_trigger(3)) ...
struct fi_msg_fetch {
  struct fi_ioc* msg_iov;
  void** desc;
  size_t iov_count;
};

// ... and the comparands of a compare.
struct fi_msg_compare {
  const struct fi_ioc* msg_iov;
  void** desc;
  size_t iov_count;
};

struct fi_ops_atomic {
  size_t size;
  ssize_t (*write)(struct fid_ep* ep, const void* buf, size_t count, void* desc, fi_addr_t dest_addr, uint64_t addr,
                   uint64_t key, enum fi_datatype datatype, enum fi_op op, void* context);
  ssize_t (*writev)(struct fid_ep* ep, const struct fi_ioc* iov, void** desc, size_t count, fi_addr_t dest_addr,
                    uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void* context);
  ssize_t (*writemsg)(struct fid_ep* ep, const struct fi_msg_atomic* msg, uint64_t flags);
  ssize_t (*inject)(struct fid_ep* ep, const void* buf, size_t count, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                    enum fi_datatype datatype, enum fi_op op);
  ssize_t (*readwrite)(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result, void* result_desc,
                       fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
                       void* context);
  ssize_t (*readwritev)(struct fid_ep* ep, const struct fi_ioc* iov, void** desc, size_t count, struct fi_ioc* resultv,
                        void** result_desc, size_t result_count, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                        enum fi_datatype datatype, enum fi_op op, void* context);
  ssize_t (*readwritemsg)(struct fid_ep* ep, const struct fi_msg_atomic* msg, struct fi_ioc* resultv,
                          void** result_desc, size_t result_count, uint64_t flags);
  ssize_t (*compwrite)(struct fid_ep* ep, const void* buf, size_t count, void* desc, const void* compare,
                       void* compare_desc, void* result, void* result_desc, fi_addr_t dest_addr, uint64_t addr,
                       uint64_t key, enum fi_datatype datatype, enum fi_op op, void* context);
  ssize_t (*compwritev)(struct fid_ep* ep, const struct fi_ioc* iov, void** desc, size_t count,
                        const struct fi_ioc* comparev, void** compare_desc, size_t compare_count,
                        struct fi_ioc* resultv, void** result_desc, size_t result_count, fi_addr_t dest_addr,
                        uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void* context);
  ssize_t (*compwritemsg)(struct fid_ep* ep, const struct fi_msg_atomic* msg, const struct fi_ioc* comparev,
                          void** compare_desc, size_t compare_count, struct fi_ioc* resultv, void** result_desc,
                          size_t result_count, uint64_t flags);
  int (*writevalid)(struct fid_ep* ep, enum fi_datatype datatype, enum fi_op op, size_t* count);
  int (*readwritevalid)(struct fid_ep* ep, enum fi_datatype datatype, enum fi_op op, size_t* count);
  int (*compwritevalid)(struct fid_ep* ep, enum fi_datatype datatype, enum fi_op op, size_t* count);
};

#ifdef FABRIC_DIRECT
#include <rdma/fi_direct_atomic.h>
#endif

#ifndef FABRIC_DIRECT_ATOMIC

// remote[i] = remote[i] op buf[i] for `count` elements. fi_atomic(3) "Base Atomic Functions".
static inline ssize_t fi_atomic(struct fid_ep* ep, const void* buf, size_t count, void* desc, fi_addr_t dest_addr,
                                uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void* context) {
  return ep->atomic->write(ep, buf, count, desc, dest_addr, addr, key, datatype, op, context);
}

// fi_atomic with the operands gathered from `count` pieces.
static inline ssize_t fi_atomicv(struct fid_ep* ep, const struct fi_ioc* iov, void** desc, size_t count,
                                 fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                                 enum fi_op op, void* context) {
  return ep->atomic->writev(ep, iov, desc, count, dest_addr, addr, key, datatype, op, context);
}

// fi_atomic in long form; `flags` replaces the endpoint's op_flags for this call.
static inline ssize_t fi_atomicmsg(struct fid_ep* ep, const struct fi_msg_atomic* msg, uint64_t flags) {
  return ep->atomic->writemsg(ep, msg, flags);
}

// fi_atomic on at most inject_size bytes: `buf` is free on return, success writes no completion.
static inline ssize_t fi_inject_atomic(struct fid_ep* ep, const void* buf, size_t count, fi_addr_t dest_addr,
                                       uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op) {
  return ep->atomic->inject(ep, buf, count, dest_addr, addr, key, datatype, op);
}

// fi_atomic that stores the values from before the update in `result`. "Fetch-Atomic Functions".
static inline ssize_t fi_fetch_atomic(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                      void* result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                                      enum fi_datatype datatype, enum fi_op op, void* context) {
  return ep->atomic->readwrite(ep, buf, count, desc, result, result_desc, dest_addr, addr, key, datatype, op, context);
}

// fi_fetch_atomic with operands and results in pieces.
static inline ssize_t fi_fetch_atomicv(struct fid_ep* ep, const struct fi_ioc* iov, void** desc, size_t count,
                                       struct fi_ioc* resultv, void** result_desc, size_t result_count,
                                       fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                                       enum fi_op op, void* context) {
  return ep->atomic->readwritev(ep, iov, desc, count, resultv, result_desc, result_count, dest_addr, addr, key,
                                datatype, op, context);
}

// fi_fetch_atomic in long form.
static inline ssize_t fi_fetch_atomicmsg(struct fid_ep* ep, const struct fi_msg_atomic* msg, struct fi_ioc* resultv,
                                         void** result_desc, size_t result_count, uint64_t flags) {
  return ep->atomic->readwritemsg(ep, msg, resultv, result_desc, result_count, flags);
}

// Per element: if compare[i] and remote[i] satisfy `op` (FI_CSWAP: equal; FI_MSWAP: swap the bits
// that compare[i] sets), buf[i] replaces remote[i]; `result` gets the old values in any case.
// "Compare-Atomic Functions".
static inline ssize_t fi_compare_atomic(struct fid_ep* ep, const void* buf, size_t count, void* desc,
                                        const void* compare, void* compare_desc, void* result, void* result_desc,
                                        fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                                        enum fi_op op, void* context) {
  return ep->atomic->compwrite(ep, buf, count, desc, compare, compare_desc, result, result_desc, dest_addr, addr, key,
                               datatype, op, context);
}

// fi_compare_atomic with operands, comparands and results in pieces.
static inline ssize_t fi_compare_atomicv(struct fid_ep* ep, const struct fi_ioc* iov, void** desc, size_t count,
                                         const struct fi_ioc* comparev, void** compare_desc, size_t compare_count,
                                         struct fi_ioc* resultv, void** result_desc, size_t result_count,
                                         fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                                         enum fi_op op, void* context) {
  return ep->atomic->compwritev(ep, iov, desc, count, comparev, compare_desc, compare_count, resultv, result_desc,
                                result_count, dest_addr, addr, key, datatype, op, context);
}

// fi_compare_atomic in long form.
static inline ssize_t fi_compare_atomicmsg(struct fid_ep* ep, const struct fi_msg_atomic* msg,
                                           const struct fi_ioc* comparev, void** compare_desc, size_t compare_count,
                                           struct fi_ioc* resultv, void** result_desc, size_t result_count,
                                           uint64_t flags) {
  return ep->atomic->compwritemsg(ep, msg, comparev, compare_desc, compare_count, resultv, result_desc, result_count,
                                  flags);
}

// Queries fi_atomic of this endpoint with this pair: 0 and *count = elements per call, or
// -FI_EOPNOTSUPP. "Atomic Valid Functions"; the next two query fetch and compare.
static inline int fi_atomicvalid(struct fid_ep* ep, enum fi_datatype datatype, enum fi_op op, size_t* count) {
  return ep->atomic->writevalid(ep, datatype, op, count);
}

static inline int fi_fetch_atomicvalid(struct fid_ep* ep, enum fi_datatype datatype, enum fi_op op, size_t* count) {
  return ep->atomic->readwritevalid(ep, datatype, op, count);
}

static inline int fi_compare_atomicvalid(struct fid_ep* ep, enum fi_datatype datatype, enum fi_op op, size_t* count) {
  return ep->atomic->compwritevalid(ep, datatype, op, count);
}

// fi_atomicvalid and its siblings for a domain, before any endpoint exists. `flags` is 0 (update), FI_FETCH_ATOMIC or
// FI_COMPARE_ATOMIC, with FI_TAGGED for tagged atomics. 0 and *attr filled, -FI_EOPNOTSUPP for an unsupported pair,
// -FI_ENOSYS if the domain has no atomics. "Query Atomic Attributes".
static inline int fi_query_atomic(struct fid_domain* domain, enum fi_datatype datatype, enum fi_op op,
                                  struct fi_atomic_attr* attr, uint64_t flags) {
  if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, query_atomic)) return -FI_ENOSYS;
  return domain->ops->query_atomic(domain, datatype, op, attr, flags);
}

#endif  // FABRIC_DIRECT_ATOMIC

#ifdef __cplusplus
}
#endif

#endif  // FI_ATOMIC_H
