// SPDX-License-Identifier: BSD-2-Clause
//
// Connection management and multicast groups. Governed by fi_cm(3); events by fi_eq(3).
//
// Connecting, accepting and joining are asynchronous: a call that returned 0 is followed by exactly
// one event or one error entry on the EQ bound to the object, which must be bound before. Private
// data (`param`) is copied during the call and silently cut to FI_OPT_CM_DATA_SIZE bytes.

#ifndef FI_CM_H
#define FI_CM_H

#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Membership in a group, from fi_join or fi_join_collective; fi_close leaves the group.
struct fid_mc {
  struct fid fid;
  fi_addr_t fi_addr;  // fi_mc_addr
};

struct fi_ops_cm {
  size_t size;
  int (*setname)(fid_t fid, void* addr, size_t addrlen);
  int (*getname)(fid_t fid, void* addr, size_t* addrlen);
  int (*getpeer)(struct fid_ep* ep, void* addr, size_t* addrlen);
  int (*connect)(struct fid_ep* ep, const void* addr, const void* param, size_t paramlen);
  int (*listen)(struct fid_pep* pep);
  int (*accept)(struct fid_ep* ep, const void* param, size_t paramlen);
  int (*reject)(struct fid_pep* pep, fid_t handle, const void* param, size_t paramlen);
  int (*shutdown)(struct fid_ep* ep, uint64_t flags);
  int (*join)(struct fid_ep* ep, const void* addr, uint64_t flags, struct fid_mc** mc, void* context);
};

// fi_setname: give an active or passive endpoint its local address, before it is enabled or listens;
// like bind(2), port 0 lets the provider choose. -FI_EINVAL wrong length or family; -FI_EADDRINUSE;
// -FI_EOPBADSTATE; -FI_ENOSYS.
static inline int fi_setname(fid_t fid, void* addr, size_t addrlen) {
  struct fid_ep* ep = (struct fid_ep*)fid;
  return ep->cm->setname(fid, addr, addrlen);
}

// fi_getname: local address of an active or passive endpoint, final once the endpoint is enabled,
// listens or got an address by fi_setname. *addrlen: in, room; out, the size of the address.
// -FI_ETOOSMALL when the address was cut to the room given.
static inline int fi_getname(fid_t fid, void* addr, size_t* addrlen) {
  struct fid_ep* ep = (struct fid_ep*)fid;
  return ep->cm->getname(fid, addr, addrlen);
}

// fi_getpeer: address of the connected peer; as fi_getname. -FI_ENOTCONN.
static inline int fi_getpeer(struct fid_ep* ep, void* addr, size_t* addrlen) {
  return ep->cm->getpeer(ep, addr, addrlen);
}

// fi_listen: start to accept requests; each arrives as FI_CONNREQ and is answered with fi_accept or
// fi_reject. Gives the endpoint an address if it has none. The number of pending requests is set
// before with fi_control(&pep->fid, FI_BACKLOG, int *). -FI_ENOEQ; -FI_EADDRINUSE; -FI_EOPBADSTATE.
static inline int fi_listen(struct fid_pep* pep) {
  return pep->cm->listen(pep);
}

// fi_connect: request a connection from the listener at `addr` (in addr_format); enables the
// endpoint. Only once per endpoint. Then FI_CONNECTED with the data of fi_accept, or an error
// entry: FI_ECONNREFUSED with the data of fi_reject in err_data, FI_ETIMEDOUT, and so on.
// -FI_ENOEQ, -FI_ENOCQ, -FI_EOPBADSTATE, -FI_EINVAL.
static inline int fi_connect(struct fid_ep* ep, const void* addr, const void* param, size_t paramlen) {
  return ep->cm->connect(ep, addr, param, paramlen);
}

// fi_accept: accept the request whose fi_info `ep` was opened with; enables the endpoint. Then
// FI_CONNECTED or an error entry. -FI_ENOEQ, -FI_ENOCQ, -FI_EOPBADSTATE.
static inline int fi_accept(struct fid_ep* ep, const void* param, size_t paramlen) {
  return ep->cm->accept(ep, param, paramlen);
}

// fi_reject: refuse the request `handle` (fi_info.handle of FI_CONNREQ) and release it. The
// requesting side gets FI_ECONNREFUSED with the data. -FI_EINVAL handle not from this endpoint.
static inline int fi_reject(struct fid_pep* pep, fid_t handle, const void* param, size_t paramlen) {
  return pep->cm->reject(pep, handle, param, paramlen);
}

// fi_shutdown: end the connection; flags must be 0. Outstanding operations are cancelled, their error
// entries are in the CQ when the call returns, and completions already there stay readable. The peer
// gets FI_SHUTDOWN. -FI_EBADFLAGS; -FI_ENOTCONN.
static inline int fi_shutdown(struct fid_ep* ep, uint64_t flags) {
  return ep->cm->shutdown(ep, flags);
}

// fi_join: join a multicast group; the endpoint is enabled and has an EQ.
//   addr   group address in the endpoint's addr_format.
//   flags  0: both roles as far as the endpoint's caps allow; FI_SEND, FI_RECV: that role only.
//          FI_COLLECTIVE belongs to fi_join_collective, whose addr is a struct fi_collective_addr.
//   mc     usable after FI_JOIN_COMPLETE; fi_close leaves.
// Transfers to the group name fi_mc_addr and carry FI_MULTICAST. -FI_ENOEQ, -FI_EOPBADSTATE,
// -FI_EINVAL, -FI_ENOSYS.
static inline int fi_join(struct fid_ep* ep, const void* addr, uint64_t flags, struct fid_mc** mc, void* context) {
  return FI_CHECK_OP(ep->cm, struct fi_ops_cm, join) ? ep->cm->join(ep, addr, flags, mc, context) : -FI_ENOSYS;
}

// fi_mc_addr: handle of the group for transfers, valid once the join completed.
static inline fi_addr_t fi_mc_addr(struct fid_mc* mc) {
  return mc->fi_addr;
}

#ifdef __cplusplus
}
#endif

#endif  // FI_CM_H
