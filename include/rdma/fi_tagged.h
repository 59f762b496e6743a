// SPDX-License-Identifier: BSD-2-Clause
//
// Tagged messages: a receive names a 64-bit tag and a mask of bits to ignore, and takes the first
// message from a matching sender whose remaining bits agree. Governing page: fi_tagged(3).
//
// Every call posts one operation and returns 0, or returns a negative fi_errno and has no effect:
//   -FI_EAGAIN       queue full: read completions, then post again (back-pressure, not a failure)
//   -FI_EOPBADSTATE  endpoint not enabled, not connected or already shut down
//   -FI_EINVAL       bad argument; -FI_EMSGSIZE longer than ep_attr->max_msg_size, or for inject
//                    longer than tx_attr->inject_size
//   -FI_ENOSYS       the endpoint was opened without FI_TAGGED
// Lengths are bytes. `context` comes back as op_context with the completion and must stay valid
// until then when mode FI_CONTEXT or FI_CONTEXT2 is in force. `desc` is fi_mr_desc() of the region
// that holds the buffer; it is NULL unless mr_mode demands FI_MR_LOCAL. Addresses are fi_addr_t of
// the bound AV; connected endpoints ignore them.
#ifndef FI_TAGGED_H
#define FI_TAGGED_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One transfer in long form, for fi_tsendmsg and fi_trecvmsg.
struct fi_msg_tagged {
  const struct iovec* msg_iov;  // the scatter-gather list
  void** desc;                  // one descriptor per element, or NULL
  size_t iov_count;             // elements, at most the iov_limit of the attributes
  fi_addr_t addr;               // destination, or source to receive from (FI_ADDR_UNSPEC: anyone)
  uint64_t tag;
  uint64_t ignore;  // receive only: bits set here are not compared
  void* context;
  uint64_t data;  // remote CQ data, sent when the flags hold FI_REMOTE_CQ_DATA
};

struct fi_ops_tagged {
  size_t size;
  ssize_t (*recv)(struct fid_ep* ep, void* buf, size_t len, void* desc, fi_addr_t src_addr, uint64_t tag,
                  uint64_t ignore, void* context);
  ssize_t (*recvv)(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count, fi_addr_t src_addr,
                   uint64_t tag, uint64_t ignore, void* context);
  ssize_t (*recvmsg)(struct fid_ep* ep, const struct fi_msg_tagged* msg, uint64_t flags);
  ssize_t (*send)(struct fid_ep* ep, const void* buf, size_t len, void* desc, fi_addr_t dest_addr, uint64_t tag,
                  void* context);
  ssize_t (*sendv)(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count, fi_addr_t dest_addr,
                   uint64_t tag, void* context);
  ssize_t (*sendmsg)(struct fid_ep* ep, const struct fi_msg_tagged* msg, uint64_t flags);
  ssize_t (*inject)(struct fid_ep* ep, const void* buf, size_t len, fi_addr_t dest_addr, uint64_t tag);
  ssize_t (*senddata)(struct fid_ep* ep, const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest_addr,
                      uint64_t tag, void* context);
  ssize_t (*injectdata)(struct fid_ep* ep, const void* buf, size_t len, uint64_t data, fi_addr_t dest_addr,
                        uint64_t tag);
};

// The tag layout that mem_tag_format FI_TAG_MPI names: the user's 32-bit tag in the low word, an
// 8-bit payload class above it; the remaining bits are zero. fi_endpoint(3), mem_tag_format.
#define FI_MPI_IGNORE_TAG ((uint64_t)UINT32_MAX)           // ignore mask: any tag
#define FI_MPI_IGNORE_PAYLOAD ((uint64_t)UINT8_MAX << 32)  // ignore mask: any payload class
static inline uint64_t fi_tag_mpi(int tag, uint8_t payload_id) {
  return ((uint64_t)payload_id << 32) | (uint64_t)(uint32_t)tag;
}

#ifdef FABRIC_DIRECT
#include <rdma/fi_direct_tagged.h>
#endif

#ifndef FABRIC_DIRECT_TAGGED

// Posts `buf` for one message. A longer message fails with FI_ETRUNC in the CQ, and the bytes that
// did not fit are lost. fi_tagged(3) "fi_trecv".
static inline ssize_t fi_trecv(struct fid_ep* ep, void* buf, size_t len, void* desc, fi_addr_t src_addr, uint64_t tag,
                               uint64_t ignore, void* context) {
  return ep->tagged->recv(ep, buf, len, desc, src_addr, tag, ignore, context);
}

// fi_trecv into `count` pieces, filled in order; the list itself may be reused on return.
static inline ssize_t fi_trecvv(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count,
                                fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void* context) {
  return ep->tagged->recvv(ep, iov, desc, count, src_addr, tag, ignore, context);
}

// Receive in long form. `flags` replaces the endpoint's op_flags for this call:
//   FI_PEEK               look for an unexpected message without taking it; the result is one
//                         completion with its length and tag, or the error FI_ENOMSG
//   FI_PEEK | FI_CLAIM    also reserve it for this context (which must be a struct fi_context)
//   FI_CLAIM              receive what this context claimed
//   FI_PEEK | FI_DISCARD, FI_CLAIM | FI_DISCARD   discard the message
//   FI_COMPLETION, FI_MULTI_RECV, FI_MORE         as for fi_recvmsg
// -FI_EBADFLAGS for anything else. fi_tagged(3) "fi_trecvmsg".
static inline ssize_t fi_trecvmsg(struct fid_ep* ep, const struct fi_msg_tagged* msg, uint64_t flags) {
  return ep->tagged->recvmsg(ep, msg, flags);
}

// Sends `len` bytes; the buffer belongs to the provider until the completion. "fi_tsend".
static inline ssize_t fi_tsend(struct fid_ep* ep, const void* buf, size_t len, void* desc, fi_addr_t dest_addr,
                               uint64_t tag, void* context) {
  return ep->tagged->send(ep, buf, len, desc, dest_addr, tag, context);
}

// Gathers `count` pieces into one message; the list itself may be reused on return. "fi_tsendv".
static inline ssize_t fi_tsendv(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count,
                                fi_addr_t dest_addr, uint64_t tag, void* context) {
  return ep->tagged->sendv(ep, iov, desc, count, dest_addr, tag, context);
}

// Send in long form; `flags` (FI_COMPLETION, FI_INJECT, FI_MORE, FI_FENCE, FI_REMOTE_CQ_DATA and
// the completion levels) replaces the endpoint's op_flags for this call. "fi_tsendmsg".
static inline ssize_t fi_tsendmsg(struct fid_ep* ep, const struct fi_msg_tagged* msg, uint64_t flags) {
  return ep->tagged->sendmsg(ep, msg, flags);
}

// Sends up to inject_size bytes; the buffer is free on return and no completion is written on
// success (an asynchronous failure still yields an error entry). "fi_tinject".
static inline ssize_t fi_tinject(struct fid_ep* ep, const void* buf, size_t len, fi_addr_t dest_addr, uint64_t tag) {
  return ep->tagged->inject(ep, buf, len, dest_addr, tag);
}

// fi_tsend that also passes `data` to the receiver's completion (FI_REMOTE_CQ_DATA). Only the low
// domain_attr->cq_data_size bytes are sent. "fi_tsenddata".
static inline ssize_t fi_tsenddata(struct fid_ep* ep, const void* buf, size_t len, void* desc, uint64_t data,
                                   fi_addr_t dest_addr, uint64_t tag, void* context) {
  return ep->tagged->senddata(ep, buf, len, desc, data, dest_addr, tag, context);
}

// fi_tinject with remote CQ data. "fi_tinjectdata".
static inline ssize_t fi_tinjectdata(struct fid_ep* ep, const void* buf, size_t len, uint64_t data, fi_addr_t dest_addr,
                                     uint64_t tag) {
  return ep->tagged->injectdata(ep, buf, len, data, dest_addr, tag);
}

#endif  // FABRIC_DIRECT_TAGGED

#ifdef __cplusplus
}
#endif

#endif  // FI_TAGGED_H
