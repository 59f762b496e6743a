// SPDX-License-Identifier: BSD-2-Clause
//
// Remote memory access. fi_rma(3) governs the calls of the same name.
#ifndef KFI_RMA_H
#define KFI_RMA_H

#include "kfabric.h"
#include "kfi_endpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kfi_rma_iov {
  uint64_t addr;
  size_t len;
  uint64_t key;
};

struct kfi_rma_ioc {
  uint64_t addr;
  size_t count;
  uint64_t key;
};

#if KFI_API >= 0x10007
struct kfi_msg_rma {
  KFI_MEMORY(msg);
  void** desc;
  size_t iov_count;
  kfi_addr_t addr;
  const struct kfi_rma_iov* rma_iov;
  size_t rma_iov_count;
  void* context;
  uint64_t data;
};
#endif

struct kfi_ops_rma {
  size_t size;
  ssize_t (*read)(struct kfid_ep* ep, void* buf, size_t len, void* desc, kfi_addr_t src_addr, uint64_t addr,
                  uint64_t key, void* context);
  ssize_t (*readv)(struct kfid_ep* ep, const struct kvec* iov, void** desc, size_t count, kfi_addr_t src_addr,
                   uint64_t addr, uint64_t key, void* context);
  ssize_t (*readbv)(struct kfid_ep* ep, const struct bio_vec* biov, void** desc, size_t count, kfi_addr_t src_addr,
                    uint64_t addr, uint64_t key, void* context);
  ssize_t (*readsgl)(struct kfid_ep* ep, const struct scatterlist* sgl, void** desc, size_t count, kfi_addr_t src_addr,
                     uint64_t addr, uint64_t key, void* context);
  ssize_t (*readmsg)(struct kfid_ep* ep, const struct kfi_msg_rma* msg, uint64_t flags);
  ssize_t (*write)(struct kfid_ep* ep, const void* buf, size_t len, void* desc, kfi_addr_t dest_addr, uint64_t addr,
                   uint64_t key, void* context);
  ssize_t (*writev)(struct kfid_ep* ep, const struct kvec* iov, void** desc, size_t count, kfi_addr_t dest_addr,
                    uint64_t addr, uint64_t key, void* context);
  ssize_t (*writebv)(struct kfid_ep* ep, const struct bio_vec* biov, void** desc, size_t count, kfi_addr_t dest_addr,
                     uint64_t addr, uint64_t key, void* context);
  ssize_t (*writesgl)(struct kfid_ep* ep, const struct scatterlist* sgl, void** desc, size_t count,
                      kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void* context);
  ssize_t (*writemsg)(struct kfid_ep* ep, const struct kfi_msg_rma* msg, uint64_t flags);
  ssize_t (*inject)(struct kfid_ep* ep, const void* buf, size_t len, kfi_addr_t dest_addr, uint64_t addr, uint64_t key);
  ssize_t (*writedata)(struct kfid_ep* ep, const void* buf, size_t len, void* desc, uint64_t data, kfi_addr_t dest_addr,
                       uint64_t addr, uint64_t key, void* context);
  ssize_t (*injectdata)(struct kfid_ep* ep, const void* buf, size_t len, uint64_t data, kfi_addr_t dest_addr,
                        uint64_t addr, uint64_t key);
};

static inline ssize_t kfi_read(struct kfid_ep* ep, void* buf, size_t len, void* desc, kfi_addr_t src_addr,
                               uint64_t addr, uint64_t key, void* context) {
  return ep->rma->read(ep, buf, len, desc, src_addr, addr, key, context);
}

static inline ssize_t kfi_readv(struct kfid_ep* ep, const struct kvec* iov, void** desc, size_t count,
                                kfi_addr_t src_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->readv(ep, iov, desc, count, src_addr, addr, key, context);
}

#if KFI_API >= 0x10007
static inline ssize_t kfi_readbv(struct kfid_ep* ep, const struct bio_vec* biov, void** desc, size_t count,
                                 kfi_addr_t src_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->readbv(ep, biov, desc, count, src_addr, addr, key, context);
}

static inline ssize_t kfi_readsgl(struct kfid_ep* ep, const struct scatterlist* sgl, void** desc, size_t count,
                                  kfi_addr_t src_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->readsgl(ep, sgl, desc, count, src_addr, addr, key, context);
}
#endif

static inline ssize_t kfi_readmsg(struct kfid_ep* ep, const struct kfi_msg_rma* msg, uint64_t flags) {
  return ep->rma->readmsg(ep, msg, flags);
}

static inline ssize_t kfi_write(struct kfid_ep* ep, const void* buf, size_t len, void* desc, kfi_addr_t dest_addr,
                                uint64_t addr, uint64_t key, void* context) {
  return ep->rma->write(ep, buf, len, desc, dest_addr, addr, key, context);
}

static inline ssize_t kfi_writev(struct kfid_ep* ep, const struct kvec* iov, void** desc, size_t count,
                                 kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->writev(ep, iov, desc, count, dest_addr, addr, key, context);
}

#if KFI_API >= 0x10007
static inline ssize_t kfi_writebv(struct kfid_ep* ep, const struct bio_vec* biov, void** desc, size_t count,
                                  kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->writebv(ep, biov, desc, count, dest_addr, addr, key, context);
}

static inline ssize_t kfi_writesgl(struct kfid_ep* ep, const struct scatterlist* sgl, void** desc, size_t count,
                                   kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->writesgl(ep, sgl, desc, count, dest_addr, addr, key, context);
}
#endif

static inline ssize_t kfi_writemsg(struct kfid_ep* ep, const struct kfi_msg_rma* msg, uint64_t flags) {
  return ep->rma->writemsg(ep, msg, flags);
}

static inline ssize_t kfi_inject_write(struct kfid_ep* ep, const void* buf, size_t len, kfi_addr_t dest_addr,
                                       uint64_t addr, uint64_t key) {
  return ep->rma->inject(ep, buf, len, dest_addr, addr, key);
}

static inline ssize_t kfi_writedata(struct kfid_ep* ep, const void* buf, size_t len, void* desc, uint64_t data,
                                    kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void* context) {
  return ep->rma->writedata(ep, buf, len, desc, data, dest_addr, addr, key, context);
}

static inline ssize_t kfi_inject_writedata(struct kfid_ep* ep, const void* buf, size_t len, uint64_t data,
                                           kfi_addr_t dest_addr, uint64_t addr, uint64_t key) {
  return ep->rma->injectdata(ep, buf, len, data, dest_addr, addr, key);
}

#ifdef __cplusplus
}
#endif

#endif  // KFI_RMA_H
