// SPDX-License-Identifier: BSD-2-Clause
//
// Connection management. Governed by kfi_cm(3).
#ifndef KFI_CM_H
#define KFI_CM_H

#include "kfabric.h"
#include "kfi_endpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kfid_mc {
  struct kfid fid;
  kfi_addr_t addr;
};

struct kfi_ops_cm {
  size_t size;
  int (*setname)(struct kfid* fid, void* addr, size_t addrlen);
  int (*getname)(struct kfid* fid, void* addr, size_t* addrlen);
  int (*getpeer)(struct kfid_ep* ep, void* addr, size_t* addrlen);
  int (*connect)(struct kfid_ep* ep, const void* addr, const void* param, size_t paramlen);
  int (*listen)(struct kfid_pep* pep);
  int (*accept)(struct kfid_ep* ep, const void* param, size_t paramlen);
  int (*reject)(struct kfid_pep* pep, kfid_t handle, const void* param, size_t paramlen);
  int (*shutdown)(struct kfid_ep* ep, uint64_t flags);
  int (*join)(struct kfid_ep* ep, const void* addr, uint64_t flags, struct kfid_mc** mc, void* context);
};

#if KFI_API >= 0x10007
static inline int kfi_setname(struct kfid* fid, void* addr, size_t addrlen) {
  struct kfid_ep* ep = (struct kfid_ep*)(void*)fid;
  return ep->cm->setname(fid, addr, addrlen);
}
#endif

static inline int kfi_getname(struct kfid* fid, void* addr, size_t* addrlen) {
  struct kfid_ep* ep = (struct kfid_ep*)(void*)fid;
  return ep->cm->getname(fid, addr, addrlen);
}

static inline int kfi_getpeer(struct kfid_ep* ep, void* addr, size_t* addrlen) {
  return ep->cm->getpeer(ep, addr, addrlen);
}

// kfi_connect: addr NULL is the dest_addr of the info that the endpoint was opened with.
static inline int kfi_connect(struct kfid_ep* ep, const void* addr, const void* param, size_t paramlen) {
  return ep->cm->connect(ep, addr, param, paramlen);
}

static inline int kfi_listen(struct kfid_pep* pep) {
  return pep->cm->listen(pep);
}

static inline int kfi_accept(struct kfid_ep* ep, const void* param, size_t paramlen) {
  return ep->cm->accept(ep, param, paramlen);
}

static inline int kfi_reject(struct kfid_pep* pep, kfid_t handle, const void* param, size_t paramlen) {
  return pep->cm->reject(pep, handle, param, paramlen);
}

// kfi_shutdown: flags 0, KFI_WRITE or KFI_READ.
static inline int kfi_shutdown(struct kfid_ep* ep, uint64_t flags) {
  return ep->cm->shutdown(ep, flags);
}

#if KFI_API >= 0x10007
static inline int kfi_join(struct kfid_ep* ep, const void* addr, uint64_t flags, struct kfid_mc** mc, void* context) {
  return ep->cm->join(ep, addr, flags, mc, context);
}

static inline kfi_addr_t kfi_mc_addr(struct kfid_mc* mc) {
  return mc->addr;
}
#endif

#ifdef __cplusplus
}
#endif

#endif  // KFI_CM_H
