// SPDX-License-Identifier: BSD-2-Clause
//
// Endpoints, their options and contexts, and untagged messages. Governed by fi_endpoint(3) and
// fi_msg(3).

#ifndef FI_ENDPOINT_H
#define FI_ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

// One message of fi_sendmsg / fi_recvmsg. The structure and its arrays are read during the call
// only, unless mode FI_ASYNC_IOV was accepted; the buffers belong to the operation until it
// completes.
struct fi_msg {
  const struct iovec* msg_iov;
  void** desc;  // fi_mr_desc per iov entry with FI_MR_LOCAL, or NULL
  size_t iov_count;
  fi_addr_t addr;  // peer; ignored on connected endpoints
  void* context;
  uint64_t data;  // remote CQ data, with FI_REMOTE_CQ_DATA
};

// Option levels of fi_setopt / fi_getopt.
enum { FI_OPT_ENDPOINT };

// Options of FI_OPT_ENDPOINT and their type; fi_endpoint(3) fi_setopt. Sizes are bytes.
enum {
  FI_OPT_MIN_MULTI_RECV,           // size_t: release a FI_MULTI_RECV buffer below this room
  FI_OPT_CM_DATA_SIZE,             // size_t, read only: most data of fi_connect, fi_accept and
                                   // fi_reject; passive endpoint: of an incoming request
  FI_OPT_BUFFERED_MIN,             // size_t: deprecated
  FI_OPT_BUFFERED_LIMIT,           // size_t: deprecated
  FI_OPT_SEND_BUF_SIZE,            // size_t: provider's send buffering
  FI_OPT_RECV_BUF_SIZE,            // size_t: provider's receive buffering
  FI_OPT_TX_SIZE,                  // size_t: transmit queue entries
  FI_OPT_RX_SIZE,                  // size_t: receive queue entries
  FI_OPT_FI_HMEM_P2P,              // int: FI_HMEM_P2P_*
  FI_OPT_XPU_TRIGGER,              // struct fi_trigger_xpu, read only: deprecated
  FI_OPT_CUDA_API_PERMITTED,       // bool
  FI_OPT_SHARED_MEMORY_PERMITTED,  // bool
  FI_OPT_MAX_MSG_SIZE,             // size_t; this and the following limit one kind of transfer
  FI_OPT_MAX_TAGGED_SIZE,          // size_t
  FI_OPT_MAX_RMA_SIZE,             // size_t
  FI_OPT_MAX_ATOMIC_SIZE,          // size_t
  FI_OPT_INJECT_MSG_SIZE,          // size_t
  FI_OPT_INJECT_TAGGED_SIZE,       // size_t
  FI_OPT_INJECT_RMA_SIZE,          // size_t
  FI_OPT_INJECT_ATOMIC_SIZE,       // size_t
  FI_OPT_FIREWALL_ADDR,            // int, boolean: peers cannot connect to this endpoint
};

// Values of FI_OPT_FI_HMEM_P2P: direct transfers between NIC and device.
enum {
  FI_HMEM_P2P_ENABLED,    // provider decides; default
  FI_HMEM_P2P_REQUIRED,   // always
  FI_HMEM_P2P_PREFERRED,  // whenever possible
  FI_HMEM_P2P_DISABLED    // never
};

// rx_size_left and tx_size_left are deprecated and stay; export_xpu goes through its guarded inline.
struct fi_ops_ep {
  size_t size;
  ssize_t (*cancel)(fid_t fid, void* context);
  int (*getopt)(fid_t fid, int level, int optname, void* optval, size_t* optlen);
  int (*setopt)(fid_t fid, int level, int optname, const void* optval, size_t optlen);
  int (*tx_ctx)(struct fid_ep* sep, int index, struct fi_tx_attr* attr, struct fid_ep** tx_ep, void* context);
  int (*rx_ctx)(struct fid_ep* sep, int index, struct fi_rx_attr* attr, struct fid_ep** rx_ep, void* context);
  ssize_t (*rx_size_left)(struct fid_ep* ep);
  ssize_t (*tx_size_left)(struct fid_ep* ep);
  int (*export_xpu)(struct fid_ep* ep, uint64_t flags, struct fid_xpu_ep* xpu_ep);
};

struct fi_ops_msg {
  size_t size;
  ssize_t (*recv)(struct fid_ep* ep, void* buf, size_t len, void* desc, fi_addr_t src_addr, void* context);
  ssize_t (*recvv)(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count, fi_addr_t src_addr,
                   void* context);
  ssize_t (*recvmsg)(struct fid_ep* ep, const struct fi_msg* msg, uint64_t flags);
  ssize_t (*send)(struct fid_ep* ep, const void* buf, size_t len, void* desc, fi_addr_t dest_addr, void* context);
  ssize_t (*sendv)(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count, fi_addr_t dest_addr,
                   void* context);
  ssize_t (*sendmsg)(struct fid_ep* ep, const struct fi_msg* msg, uint64_t flags);
  ssize_t (*inject)(struct fid_ep* ep, const void* buf, size_t len, fi_addr_t dest_addr);
  ssize_t (*senddata)(struct fid_ep* ep, const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest_addr,
                      void* context);
  ssize_t (*injectdata)(struct fid_ep* ep, const void* buf, size_t len, uint64_t data, fi_addr_t dest_addr);
};

struct fi_ops_cm;
struct fi_ops_rma;
struct fi_ops_tagged;
struct fi_ops_atomic;
struct fi_ops_collective;

// Active, scalable or shared-receive endpoint. A table is NULL when the endpoint lacks the
// capability. Calls that change an endpoint (bind, setopt, control) may replace the tables and must
// not run beside other calls on it.
//
// Layout contract: fi_cancel, fi_setopt, fi_getopt, fi_setname and fi_getname treat any fid as the
// start of a fid_ep. fid_pep and fid_stx therefore repeat its first members.
struct fid_ep {
  struct fid fid;
  struct fi_ops_ep* ops;
  struct fi_ops_cm* cm;
  struct fi_ops_msg* msg;
  struct fi_ops_rma* rma;
  struct fi_ops_tagged* tagged;
  struct fi_ops_atomic* atomic;
  struct fi_ops_collective* collective;
};

// Passive endpoint: listens for connection requests; fi_cm(3).
struct fid_pep {
  struct fid fid;
  struct fi_ops_ep* ops;
  struct fi_ops_cm* cm;
};

// Shared transmit context.
struct fid_stx {
  struct fid fid;
  struct fi_ops_ep* ops;
};

// ---- Calls: opening, fi_endpoint(3) ---------------------------------------------------------

// fi_passive_ep: endpoint that can listen, on the address info->src_addr (or fi_setname). Requests
// neither accepted nor rejected when it is closed are refused.
static inline int fi_passive_ep(struct fid_fabric* fabric, struct fi_info* info, struct fid_pep** pep, void* context) {
  return fabric->ops->passive_ep(fabric, info, pep, context);
}

// fi_endpoint: active endpoint, disabled. info->handle, when set, is a connection request to accept,
// or a passive endpoint whose address it takes over and which then may only be closed.
// Next: bind queues, fi_enable (or fi_connect / fi_accept). Closing cancels what is outstanding.
// -FI_EINVAL, -FI_EDOMAIN, -FI_ENOMEM.
static inline int fi_endpoint(struct fid_domain* domain, struct fi_info* info, struct fid_ep** ep, void* context) {
  return domain->ops->endpoint(domain, info, ep, context);
}

// fi_endpoint2: fi_endpoint with flags (FI_PEER_TRANSFER: fi_peer(3)). -FI_ENOSYS, -FI_EBADFLAGS when
// the provider takes no flags.
static inline int fi_endpoint2(struct fid_domain* domain, struct fi_info* info, struct fid_ep** ep, uint64_t flags,
                               void* context) {
  if (!flags) return fi_endpoint(domain, info, ep, context);
  return FI_CHECK_OP(domain->ops, struct fi_ops_domain, endpoint2)
             ? domain->ops->endpoint2(domain, info, ep, flags, context)
             : -FI_ENOSYS;
}

// fi_scalable_ep: one address with ep_attr.tx_ctx_cnt transmit and rx_ctx_cnt receive contexts,
// opened with fi_tx_context and fi_rx_context.
static inline int fi_scalable_ep(struct fid_domain* domain, struct fi_info* info, struct fid_ep** sep, void* context) {
  return domain->ops->scalable_ep(domain, info, sep, context);
}

// fi_ep_bind: attach a resource before the endpoint is enabled.
//   EQ       flags 0.
//   AV       flags 0.
//   CQ       FI_TRANSMIT, FI_RECV or both, optionally FI_SELECTIVE_COMPLETION.
//   counter  any of FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE.
//   stx, srx flags 0.
// -FI_EINVAL already bound or wrong kind; -FI_EBADFLAGS; -FI_EDOMAIN; -FI_EOPBADSTATE.
static inline int fi_ep_bind(struct fid_ep* ep, struct fid* bfid, uint64_t flags) {
  return ep->fid.ops->bind(&ep->fid, bfid, flags);
}

// fi_pep_bind: attach the EQ of connection requests; flags 0.
static inline int fi_pep_bind(struct fid_pep* pep, struct fid* bfid, uint64_t flags) {
  return pep->fid.ops->bind(&pep->fid, bfid, flags);
}

// fi_scalable_ep_bind: attach the AV of a scalable endpoint; flags 0.
static inline int fi_scalable_ep_bind(struct fid_ep* sep, struct fid* bfid, uint64_t flags) {
  return sep->fid.ops->bind(&sep->fid, bfid, flags);
}

// fi_enable: make an endpoint usable for transfers; fi_endpoint(3) fi_enable. fi_connect and
// fi_accept do it implicitly.
// -FI_ENOCQ a direction has neither CQ nor counter; -FI_ENOAV; -FI_ENOEQ; -FI_EOPBADSTATE.
static inline int fi_enable(struct fid_ep* ep) {
  return ep->fid.ops->control(&ep->fid, FI_ENABLE, NULL);
}

// fi_cancel: cancel the oldest outstanding operation with this context, which then ends as an error
// entry with FI_ECANCELED; an operation that is already under way ends normally. -FI_ENOENT no
// operation has this context.
static inline ssize_t fi_cancel(fid_t fid, void* context) {
  struct fid_ep* ep = (struct fid_ep*)fid;
  return ep->ops->cancel(fid, context);
}

// fi_setopt: set an option of an endpoint or passive endpoint, before enabling. -FI_ENOPROTOOPT
// unknown; -FI_EINVAL size or value.
static inline int fi_setopt(fid_t fid, int level, int optname, const void* optval, size_t optlen) {
  struct fid_ep* ep = (struct fid_ep*)fid;
  return ep->ops->setopt(fid, level, optname, optval, optlen);
}

// fi_getopt: read an option. *optlen: in, room; out, size. -FI_ETOOSMALL; -FI_ENOPROTOOPT.
static inline int fi_getopt(fid_t fid, int level, int optname, void* optval, size_t* optlen) {
  struct fid_ep* ep = (struct fid_ep*)fid;
  return ep->ops->getopt(fid, level, optname, optval, optlen);
}

// fi_ep_alias: second handle on the endpoint with other default op_flags (with FI_TRANSMIT or
// FI_RECV). Closed before the endpoint.
static inline int fi_ep_alias(struct fid_ep* ep, struct fid_ep** alias_ep, uint64_t flags) {
  struct fid* fid;
  int ret = fi_alias(&ep->fid, &fid, flags);
  if (!ret) *alias_ep = (struct fid_ep*)fid;
  return ret;
}

// fi_tx_context / fi_rx_context: context `idx` of a scalable endpoint. attr NULL takes the
// endpoint's. Bound and enabled like an endpoint.
static inline int fi_tx_context(struct fid_ep* ep, int idx, struct fi_tx_attr* attr, struct fid_ep** tx_ep,
                                void* context) {
  return ep->ops->tx_ctx(ep, idx, attr, tx_ep, context);
}

static inline int fi_rx_context(struct fid_ep* ep, int idx, struct fi_rx_attr* attr, struct fid_ep** rx_ep,
                                void* context) {
  return ep->ops->rx_ctx(ep, idx, attr, rx_ep, context);
}

// fi_rx_size_left / fi_tx_size_left: operations that may still be posted, a lower bound.
// -FI_EOPBADSTATE before enabling. Deprecated.
static inline ssize_t fi_rx_size_left(struct fid_ep* ep) {
  return ep->ops->rx_size_left(ep);
}

static inline ssize_t fi_tx_size_left(struct fid_ep* ep) {
  return ep->ops->tx_size_left(ep);
}

// fi_ep_export_xpu: the handle with which an accelerator uses this endpoint, opened with FI_XPU and enabled; fi_xpu(3).
// -FI_ENOSYS; -FI_EINVAL.
static inline int fi_ep_export_xpu(struct fid_ep* ep, uint64_t flags, struct fid_xpu_ep* xpu_ep) {
  return FI_CHECK_OP(ep->ops, struct fi_ops_ep, export_xpu) ? ep->ops->export_xpu(ep, flags, xpu_ep) : -FI_ENOSYS;
}

// fi_stx_context: transmit context for several endpoints, attached with fi_ep_bind.
static inline int fi_stx_context(struct fid_domain* domain, struct fi_tx_attr* attr, struct fid_stx** stx,
                                 void* context) {
  return domain->ops->stx_ctx(domain, attr, stx, context);
}

// fi_srx_context: receive context for several endpoints, attached with fi_ep_bind. Receives are
// posted to rx_ep; completions go to the CQ of the endpoint that got the message.
static inline int fi_srx_context(struct fid_domain* domain, struct fi_rx_attr* attr, struct fid_ep** rx_ep,
                                 void* context) {
  return domain->ops->srx_ctx(domain, attr, rx_ep, context);
}

// ---- Calls: messages, fi_msg(3) -------------------------------------------------------------
// All are asynchronous and need FI_MSG. Buffers belong to the operation until its completion, desc is
// fi_mr_desc of the buffer with FI_MR_LOCAL and else NULL, count is at most iov_limit.
// Common errors: -FI_EAGAIN queue full, progress and retry; -FI_EOPBADSTATE not enabled;
// -FI_EMSGSIZE, -FI_EINVAL longer than allowed; -FI_ENOTCONN, -FI_ESHUTDOWN.

// fi_recv: post a buffer. src_addr restricts the sender with FI_DIRECTED_RECV, FI_ADDR_UNSPEC takes
// any. A longer message completes with FI_ETRUNC.
static inline ssize_t fi_recv(struct fid_ep* ep, void* buf, size_t len, void* desc, fi_addr_t src_addr, void* context) {
  return ep->msg->recv(ep, buf, len, desc, src_addr, context);
}

// fi_recvv: post a scattered buffer.
static inline ssize_t fi_recvv(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count,
                               fi_addr_t src_addr, void* context) {
  return ep->msg->recvv(ep, iov, desc, count, src_addr, context);
}

// fi_recvmsg: fi_recvv with flags: FI_COMPLETION, FI_MORE, FI_MULTI_RECV (one buffer, many messages).
// Default op_flags do not apply.
static inline ssize_t fi_recvmsg(struct fid_ep* ep, const struct fi_msg* msg, uint64_t flags) {
  return ep->msg->recvmsg(ep, msg, flags);
}

// fi_send: send one buffer; zero length is a message too.
static inline ssize_t fi_send(struct fid_ep* ep, const void* buf, size_t len, void* desc, fi_addr_t dest_addr,
                              void* context) {
  return ep->msg->send(ep, buf, len, desc, dest_addr, context);
}

// fi_sendv: send a gathered buffer.
static inline ssize_t fi_sendv(struct fid_ep* ep, const struct iovec* iov, void** desc, size_t count,
                               fi_addr_t dest_addr, void* context) {
  return ep->msg->sendv(ep, iov, desc, count, dest_addr, context);
}

// fi_sendmsg: fi_sendv with flags: FI_COMPLETION, FI_MORE, FI_INJECT, FI_REMOTE_CQ_DATA, FI_FENCE,
// FI_MULTICAST, FI_*_COMPLETE. Default op_flags do not apply.
static inline ssize_t fi_sendmsg(struct fid_ep* ep, const struct fi_msg* msg, uint64_t flags) {
  return ep->msg->sendmsg(ep, msg, flags);
}

// fi_inject: send at most inject_size bytes; buf is free at return. Success writes no CQ entry but
// increments a bound counter.
static inline ssize_t fi_inject(struct fid_ep* ep, const void* buf, size_t len, fi_addr_t dest_addr) {
  return ep->msg->inject(ep, buf, len, dest_addr);
}

// fi_senddata: fi_send with cq_data_size bytes of `data` for the receiver's completion.
static inline ssize_t fi_senddata(struct fid_ep* ep, const void* buf, size_t len, void* desc, uint64_t data,
                                  fi_addr_t dest_addr, void* context) {
  return ep->msg->senddata(ep, buf, len, desc, data, dest_addr, context);
}

// fi_injectdata: fi_inject with data.
static inline ssize_t fi_injectdata(struct fid_ep* ep, const void* buf, size_t len, uint64_t data,
                                    fi_addr_t dest_addr) {
  return ep->msg->injectdata(ep, buf, len, data, dest_addr);
}

#ifdef __cplusplus
}
#endif

#endif  // FI_ENDPOINT_H
