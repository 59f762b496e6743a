// SPDX-License-Identifier: BSD-2-Clause
//
// Remote memory access: read from or write to memory that a peer registered with FI_REMOTE_READ or
// FI_REMOTE_WRITE, without a receive on its side. Governing page: fi_rma(3).
//
// Remote memory is named by `addr` (bytes from the start of the region; with FI_MR_VIRT_ADDR the
// peer's virtual address) and `key` (its fi_mr_key). Every call posts one operation and returns 0,
// or returns a negative fi_errno and has no effect: -FI_EAGAIN (full queue, read completions and
// post again), -FI_EOPBADSTATE (not enabled or not connected), -FI_EINVAL, -FI_EMSGSIZE (longer than
// max_msg_size, for inject longer than inject_size), -FI_ENOSYS (opened without FI_RMA). An access
// that the peer did not grant fails (verbs: FI_EACCES) or ends the connection (tcp). `desc`,
// `context` and fi_addr_t arguments are those of fi_msg(3).
#ifndef FI_RMA_H
#define FI_RMA_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A range of remote memory in bytes ...
struct fi_rma_iov {
  uint64_t addr;
  size_t len;
  uint64_t key;
};

// ... and in datatype elements, for atomics.
struct fi_rma_ioc {
  uint64_t addr;
  size_t count;
  uint64_t key;
};

// One transfer in long form. The two lists must describe the same number of bytes.
struct fi_msg_rma {
  const struct iovec* msg_iov;       // local side
  void** desc;                       // one descriptor per local element, or NULL
  size_t iov_count;                  // at most tx_attr->iov_limit
  fi_addr_t addr;                    // the peer
  const struct fi_rma_iov* rma_iov;  // remote side
  size_t rma_iov_count;              // at most tx_attr->rma_iov_limit
  void* context;
  uint64_t data;  // remote CQ data, sent when the flags hold FI_REMOTE_CQ_DATA
};

struct fi_ops_rma {
  size_t size;
  ssize_t (*read)(struct fid_ep* ep, void* buf, size_t len, void* desc, fi_addr_t src_addr, uint64_t addr, uint64_t key,
                  void* context);
  ssize_t (*readv)(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count, fi_addr_t src_addr,
                   uint64_t addr, uint64_t key, void* context);
  ssize_t (*readmsg)(struct fid_ep* ep, const struct fi_msg_rma* msg, uint64_t flags);
  ssize_t (*write)(struct fid_ep* ep, const void* buf, size_t len, void* desc, fi_addr_t dest_addr, uint64_t addr,
                   uint64_t key, void* context);
  ssize_t (*writev)(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count, fi_addr_t dest_addr,
                    uint64_t addr, uint64_t key, void* context);
  ssize_t (*writemsg)(struct fid_ep* ep, const struct fi_msg_rma* msg, uint64_t flags);
  ssize_t (*inject)(struct fid_ep* ep, const void* buf, size_t len, fi_addr_t dest_addr, uint64_t addr, uint64_t key);
  ssize_t (*writedata)(struct fid_ep* ep, const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest_addr,
                       uint64_t addr, uint64_t key, void* context);
  ssize_t (*injectdata)(struct fid_ep* ep, const void* buf, size_t len, uint64_t data, fi_addr_t dest_addr,
                        uint64_t addr, uint64_t key);
};

#ifdef FABRIC_DIRECT
#include <rdma/fi_direct_rma.h>
#endif

#ifndef FABRIC_DIRECT_RMA

// Reads `len` remote bytes into `buf`, which holds them at the completion. fi_rma(3) "fi_read".
static inline ssize_t fi_read(struct fid_ep* ep, void* buf, size_t len, void* desc, fi_addr_t src_addr, uint64_t addr,
                              uint64_t key, void* context) {
  return ep->rma->read(ep, buf, len, desc, src_addr, addr, key, context);
}

// Reads one remote range into `count` local pieces. "fi_readv".
static inline ssize_t fi_readv(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count,
                               fi_addr_t src_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->readv(ep, iov, desc, count, src_addr, addr, key, context);
}

// Read in long form. `flags` (FI_COMPLETION, FI_MORE, FI_FENCE) replaces the endpoint's op_flags.
// "fi_readmsg".
static inline ssize_t fi_readmsg(struct fid_ep* ep, const struct fi_msg_rma* msg, uint64_t flags) {
  return ep->rma->readmsg(ep, msg, flags);
}

// Writes `len` bytes from `buf`. tx_attr->op_flags sets the completion level: buffer reusable
// (FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE) or placed remotely (FI_DELIVERY_COMPLETE). "fi_write".
static inline ssize_t fi_write(struct fid_ep* ep, const void* buf, size_t len, void* desc, fi_addr_t dest_addr,
                               uint64_t addr, uint64_t key, void* context) {
  return ep->rma->write(ep, buf, len, desc, dest_addr, addr, key, context);
}

// Writes `count` local pieces to one remote range. "fi_writev".
static inline ssize_t fi_writev(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count,
                                fi_addr_t dest_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->writev(ep, iov, desc, count, dest_addr, addr, key, context);
}

// Write in long form. `flags` (FI_COMPLETION, FI_INJECT, FI_MORE, FI_FENCE, FI_REMOTE_CQ_DATA, the
// completion levels) replaces the endpoint's op_flags. "fi_writemsg".
static inline ssize_t fi_writemsg(struct fid_ep* ep, const struct fi_msg_rma* msg, uint64_t flags) {
  return ep->rma->writemsg(ep, msg, flags);
}

// Writes up to inject_size bytes: `buf` is free on return, success writes no completion, failure
// writes an error entry. "fi_inject_write".
static inline ssize_t fi_inject_write(struct fid_ep* ep, const void* buf, size_t len, fi_addr_t dest_addr,
                                      uint64_t addr, uint64_t key) {
  return ep->rma->inject(ep, buf, len, dest_addr, addr, key);
}

// fi_write that also gives the target one completion carrying `data` (low cq_data_size bytes); with
// mode FI_RX_CQ_DATA it consumes a posted receive there. "fi_writedata".
static inline ssize_t fi_writedata(struct fid_ep* ep, const void* buf, size_t len, void* desc, uint64_t data,
                                   fi_addr_t dest_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->writedata(ep, buf, len, desc, data, dest_addr, addr, key, context);
}

// fi_inject_write with remote CQ data. "fi_inject_writedata".
static inline ssize_t fi_inject_writedata(struct fid_ep* ep, const void* buf, size_t len, uint64_t data,
                                          fi_addr_t dest_addr, uint64_t addr, uint64_t key) {
  return ep->rma->injectdata(ep, buf, len, data, dest_addr, addr, key);
}

#endif  // FABRIC_DIRECT_RMA

#ifdef __cplusplus
}
#endif

#endif  // FI_RMA_H
