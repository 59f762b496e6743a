// SPDX-License-Identifier: BSD-2-Clause
//
// Domains, address vectors, memory regions, the opening of completion queues and counters, and the datatypes of
// atomics. fi_domain(3), fi_av(3) and fi_mr(3) govern the calls of the same name.
#ifndef KFI_DOMAIN_H
#define KFI_DOMAIN_H

#include "kfabric.h"
#include "kfi_eq.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kfi_datatype {
  KFI_INT8,
  KFI_UINT8,
  KFI_INT16,
  KFI_UINT16,
  KFI_INT32,
  KFI_UINT32,
  KFI_INT64,
  KFI_UINT64,
  KFI_FLOAT,
  KFI_DOUBLE,
  KFI_FLOAT_COMPLEX,
  KFI_DOUBLE_COMPLEX,
  KFI_LONG_DOUBLE,
  KFI_LONG_DOUBLE_COMPLEX,
  KFI_DATATYPE_LAST
};

enum kfi_op {
  KFI_MIN,
  KFI_MAX,
  KFI_SUM,
  KFI_PROD,
  KFI_LOR,
  KFI_LAND,
  KFI_BOR,
  KFI_BAND,
  KFI_LXOR,
  KFI_BXOR,
  KFI_ATOMIC_READ,
  KFI_ATOMIC_WRITE,
  KFI_CSWAP,
  KFI_CSWAP_NE,
  KFI_CSWAP_LE,
  KFI_CSWAP_LT,
  KFI_CSWAP_GE,
  KFI_CSWAP_GT,
  KFI_MSWAP,
  KFI_ATOMIC_OP_LAST
};

struct kfi_atomic_attr;

// ---- Address vector -------------------------------------------------------------------------------------------------

struct kfi_av_attr {
  enum kfi_av_type type;
  int rx_ctx_bits;
  size_t count;
  size_t ep_per_node;
  const char* name;
  void* map_addr;
  uint64_t flags;
};

struct kfi_ops_av {
  size_t size;
  int (*insert)(struct kfid_av* av, const void* addr, size_t count, kfi_addr_t* kfi_addr, uint64_t flags,
                void* context);
  int (*insertsvc)(struct kfid_av* av, const char* node, const char* service, kfi_addr_t* kfi_addr, uint64_t flags,
                   void* context);
  int (*insertsym)(struct kfid_av* av, const char* node, size_t nodecnt, const char* service, size_t svccnt,
                   kfi_addr_t* kfi_addr, uint64_t flags, void* context);
  int (*remove)(struct kfid_av* av, kfi_addr_t* kfi_addr, size_t count, uint64_t flags);
  int (*lookup)(struct kfid_av* av, kfi_addr_t kfi_addr, void* addr, size_t* addrlen);
  const char* (*straddr)(struct kfid_av* av, const void* addr, char* buf, size_t* len);
};

struct kfid_av {
  struct kfid fid;
  struct kfi_ops_av* ops;
};

// ---- Memory region --------------------------------------------------------------------------------------------------

struct kfid_mr {
  struct kfid fid;
  void* mem_desc;
  uint64_t key;
#if KFI_API >= 0x10007
  uint64_t iova;  // the address for peers: the buffer's, or 0 where addresses are offsets
#endif
};

#if KFI_API >= 0x10007
struct kfi_mr_attr {
  KFI_MEMORY(mr);
  size_t iov_count;
  uint64_t access;
  uint64_t offset;
  uint64_t requested_key;
  void* context;
  size_t auth_key_size;
  uint8_t* auth_key;
};

struct kfi_mr_modify {
  uint64_t flags;
  struct kfi_mr_attr attr;
};

// `fid` is the domain's.
struct kfi_ops_mr {
  size_t size;
  int (*reg)(struct kfid* fid, const void* buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key,
             uint64_t flags, struct kfid_mr** mr, void* context);
  int (*regv)(struct kfid* fid, const struct kvec* iov, size_t count, uint64_t access, uint64_t offset,
              uint64_t requested_key, uint64_t flags, struct kfid_mr** mr, void* context);
  int (*regbv)(struct kfid* fid, const struct bio_vec* biov, size_t count, uint64_t access, uint64_t offset,
               uint64_t requested_key, uint64_t flags, struct kfid_mr** mr, void* context);
  int (*regsgl)(struct kfid* fid, const struct scatterlist* sgl, size_t count, uint64_t access, uint64_t offset,
                uint64_t requested_key, uint64_t flags, struct kfid_mr** mr, void* context);
  int (*regattr)(struct kfid* fid, const struct kfi_mr_attr* attr, uint64_t flags, struct kfid_mr** mr);
};
#endif

// ---- Domain ---------------------------------------------------------------------------------------------------------

struct kfi_ops_domain {
  size_t size;
  int (*av_open)(struct kfid_domain* domain, struct kfi_av_attr* attr, struct kfid_av** av, void* context);
  int (*cq_open)(struct kfid_domain* domain, struct kfi_cq_attr* attr, struct kfid_cq** cq, kfi_comp_handler handler,
                 void* context);
  int (*endpoint)(struct kfid_domain* domain, struct kfi_info* info, struct kfid_ep** ep, void* context);
  int (*scalable_ep)(struct kfid_domain* domain, struct kfi_info* info, struct kfid_ep** sep, void* context);
  int (*cntr_open)(struct kfid_domain* domain, struct kfi_cntr_attr* attr, struct kfid_cntr** cntr, void* context);
  int (*poll_open)(struct kfid_domain* domain, struct kfi_poll_attr* attr, struct kfid_poll** pollset);
  int (*stx_ctx)(struct kfid_domain* domain, struct kfi_tx_attr* attr, struct kfid_stx** stx, void* context);
  int (*srx_ctx)(struct kfid_domain* domain, struct kfi_rx_attr* attr, struct kfid_ep** rx_ep, void* context);
  int (*query_atomic)(struct kfid_domain* domain, enum kfi_datatype datatype, enum kfi_op op,
                      struct kfi_atomic_attr* attr, uint64_t flags);
};

struct kfid_domain {
  struct kfid fid;
  struct kfi_ops_domain* ops;
  struct kfi_ops_mr* mr;
};

static inline int kfi_domain(struct kfid_fabric* fabric, struct kfi_info* info, struct kfid_domain** domain,
                             void* context) {
  return fabric->ops->domain(fabric, info, domain, context);
}

static inline int kfi_domain_bind(struct kfid_domain* domain, struct kfid* fid, uint64_t flags) {
  return domain->fid.ops->bind(&domain->fid, fid, flags);
}

#if KFI_API < 0x10007
static inline int kfi_cq_open(struct kfid_domain* domain, struct kfi_cq_attr* attr, struct kfid_cq** cq,
                              void* context) {
  return domain->ops->cq_open(domain, attr, cq, NULL, context);
}
#else
static inline int kfi_cq_open(struct kfid_domain* domain, struct kfi_cq_attr* attr, struct kfid_cq** cq,
                              kfi_comp_handler comp_handler, void* context) {
  return domain->ops->cq_open(domain, attr, cq, comp_handler, context);
}
#endif

static inline int kfi_cntr_open(struct kfid_domain* domain, struct kfi_cntr_attr* attr, struct kfid_cntr** cntr,
                                void* context) {
  return domain->ops->cntr_open(domain, attr, cntr, context);
}

static inline int kfi_poll_open(struct kfid_domain* domain, struct kfi_poll_attr* attr, struct kfid_poll** pollset) {
  return domain->ops->poll_open(domain, attr, pollset);
}

// ---- Memory region --------------------------------------------------------------------------------------------------

#if KFI_API < 0x10007
// *dma_addr: the address that peers use: the buffer's, or 0 where addresses are offsets.
static inline int kfi_mr_reg(struct kfid_domain* domain, const void* buf, size_t len, uint64_t access, uint64_t offset,
                             uint64_t requested_key, uint64_t flags, struct kfid_mr** mr, void* context,
                             uint64_t* dma_addr) {
  return domain->mr->reg(&domain->fid, buf, len, access, offset, requested_key, flags, mr, context, dma_addr);
}
#else
static inline int kfi_mr_reg(struct kfid_domain* domain, const void* buf, size_t len, uint64_t access, uint64_t offset,
                             uint64_t requested_key, uint64_t flags, struct kfid_mr** mr, void* context) {
  return domain->mr->reg(&domain->fid, buf, len, access, offset, requested_key, flags, mr, context);
}

static inline int kfi_mr_regv(struct kfid_domain* domain, const struct kvec* iov, size_t count, uint64_t access,
                              uint64_t offset, uint64_t requested_key, uint64_t flags, struct kfid_mr** mr,
                              void* context) {
  return domain->mr->regv(&domain->fid, iov, count, access, offset, requested_key, flags, mr, context);
}

static inline int kfi_mr_regbv(struct kfid_domain* domain, const struct bio_vec* biov, size_t count, uint64_t access,
                               uint64_t offset, uint64_t requested_key, uint64_t flags, struct kfid_mr** mr,
                               void* context) {
  return domain->mr->regbv(&domain->fid, biov, count, access, offset, requested_key, flags, mr, context);
}

static inline int kfi_mr_regsgl(struct kfid_domain* domain, const struct scatterlist* sgl, size_t count,
                                uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                                struct kfid_mr** mr, void* context) {
  return domain->mr->regsgl(&domain->fid, sgl, count, access, offset, requested_key, flags, mr, context);
}

static inline int kfi_mr_regattr(struct kfid_domain* domain, const struct kfi_mr_attr* attr, uint64_t flags,
                                 struct kfid_mr** mr) {
  return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

#pragma GCC diagnostic push  // a call with the name of its argument structure
#pragma GCC diagnostic ignored "-Wshadow"
static inline int kfi_mr_raw_attr(struct kfid_mr* mr, uint64_t* base_addr, uint8_t* raw_key, size_t* key_size,
                                  uint64_t flags) {
  struct kfi_mr_raw_attr attr;
  attr.flags = flags;
  attr.base_addr = base_addr;
  attr.raw_key = raw_key;
  attr.key_size = key_size;
  return mr->fid.ops->control(&mr->fid, KFI_GET_RAW_MR, &attr);
}

static inline int kfi_mr_map_raw(struct kfid_domain* domain, uint64_t base_addr, uint8_t* raw_key, size_t key_size,
                                 uint64_t* key, uint64_t flags) {
  struct kfi_mr_map_raw map;
  map.flags = flags;
  map.base_addr = base_addr;
  map.raw_key = raw_key;
  map.key_size = key_size;
  map.key = key;
  return domain->fid.ops->control(&domain->fid, KFI_MAP_RAW_MR, &map);
}
#pragma GCC diagnostic pop

static inline int kfi_mr_unmap_key(struct kfid_domain* domain, uint64_t key) {
  return domain->fid.ops->control(&domain->fid, KFI_UNMAP_KEY, &key);
}

static inline int kfi_mr_refresh(struct kfid_mr* mr, const struct kvec* iov, size_t count, uint64_t flags) {
  struct kfi_mr_modify modify = {0, {KFI_KVEC, {NULL}, 0, 0, 0, 0, NULL, 0, NULL}};
  modify.flags = flags;
  modify.attr.mr_iov = iov;
  modify.attr.iov_count = count;
  return mr->fid.ops->control(&mr->fid, KFI_REFRESH, &modify);
}

static inline int kfi_mr_enable(struct kfid_mr* mr) {
  return mr->fid.ops->control(&mr->fid, KFI_ENABLE, NULL);
}
#endif

static inline void* kfi_mr_desc(struct kfid_mr* mr) {
  return mr->mem_desc;
}
static inline uint64_t kfi_mr_key(struct kfid_mr* mr) {
  return mr->key;
}

static inline int kfi_mr_bind(struct kfid_mr* mr, struct kfid* fid, uint64_t flags) {
  return mr->fid.ops->bind(&mr->fid, fid, flags);
}

// ---- Address vector -------------------------------------------------------------------------------------------------

static inline int kfi_av_open(struct kfid_domain* domain, struct kfi_av_attr* attr, struct kfid_av** av,
                              void* context) {
  return domain->ops->av_open(domain, attr, av, context);
}

static inline int kfi_av_bind(struct kfid_av* av, struct kfid* fid, uint64_t flags) {
  return av->fid.ops->bind(&av->fid, fid, flags);
}

static inline int kfi_av_insert(struct kfid_av* av, const void* addr, size_t count, kfi_addr_t* kfi_addr,
                                uint64_t flags, void* context) {
  return av->ops->insert(av, addr, count, kfi_addr, flags, context);
}

static inline int kfi_av_insertsvc(struct kfid_av* av, const char* node, const char* service, kfi_addr_t* kfi_addr,
                                   uint64_t flags, void* context) {
  return av->ops->insertsvc(av, node, service, kfi_addr, flags, context);
}

static inline int kfi_av_insertsym(struct kfid_av* av, const char* node, size_t nodecnt, const char* service,
                                   size_t svccnt, kfi_addr_t* kfi_addr, uint64_t flags, void* context) {
  return av->ops->insertsym(av, node, nodecnt, service, svccnt, kfi_addr, flags, context);
}

static inline int kfi_av_remove(struct kfid_av* av, kfi_addr_t* kfi_addr, size_t count, uint64_t flags) {
  return av->ops->remove(av, kfi_addr, count, flags);
}

static inline int kfi_av_lookup(struct kfid_av* av, kfi_addr_t kfi_addr, void* addr, size_t* addrlen) {
  return av->ops->lookup(av, kfi_addr, addr, addrlen);
}

static inline const char* kfi_av_straddr(struct kfid_av* av, const void* addr, char* buf, size_t* len) {
  return av->ops->straddr(av, addr, buf, len);
}

static inline kfi_addr_t kfi_rx_addr(kfi_addr_t kfi_addr, int rx_index, int rx_ctx_bits) {
  return rx_ctx_bits == 0 ? kfi_addr : (kfi_addr_t)(((uint64_t)rx_index << (64 - rx_ctx_bits)) | kfi_addr);
}

#ifdef __cplusplus
}
#endif

#endif  // KFI_DOMAIN_H
