// SPDX-License-Identifier: BSD-2-Clause
//
// Domains and their objects: address vectors, memory regions, and the calls that open queues,
// counters and sets. Governed by fi_domain(3), fi_av(3), fi_mr(3), fi_av_set(3); the datatypes and
// operations of atomics and collectives by fi_atomic(3) and fi_collective(3).

#ifndef FI_DOMAIN_H
#define FI_DOMAIN_H

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Address vector: fi_av(3) ---------------------------------------------------------------

// Flags of av_attr and of inserts.
#define FI_SYMMETRIC (1ULL << 59)  // hint: every node has the same, sequential addresses
#define FI_SYNC_ERR (1ULL << 58)   // insert: context is int[count], 0 or FI_E... per address
#define FI_UNIVERSE (1ULL << 57)   // av_set: start from every address in the AV

// Flags of fi_av_set_attr: collectives the set will be used for; fi_av_set(3).
#define FI_BARRIER_SET (1ULL << 40)
#define FI_BROADCAST_SET (1ULL << 41)
#define FI_ALLTOALL_SET (1ULL << 42)
#define FI_ALLREDUCE_SET (1ULL << 43)
#define FI_ALLGATHER_SET (1ULL << 44)
#define FI_REDUCE_SCATTER_SET (1ULL << 45)
#define FI_REDUCE_SET (1ULL << 46)
#define FI_SCATTER_SET (1ULL << 47)
#define FI_GATHER_SET (1ULL << 48)

struct fi_av_attr {
  enum fi_av_type type;
  int rx_ctx_bits;     // upper bits of fi_addr_t that select a receive context
  size_t count;        // addresses expected; hint
  size_t ep_per_node;  // endpoints per node expected; hint
  const char* name;    // NULL, or name of a shared AV (FI_SHARED_AV)
  void* map_addr;      // named FI_AV_MAP: processes with equal values share handles; NULL: out
  uint64_t flags;      // FI_EVENT (inserts report to the EQ), FI_READ, FI_SYMMETRIC,
                       // FI_AV_USER_ID
};

// Members of an AV set: count addresses start, start + stride, ... end; fi_av_set(3).
struct fi_av_set_attr {
  size_t count;
  fi_addr_t start_addr;
  fi_addr_t end_addr;
  uint64_t stride;
  size_t comm_key_size;  // bytes at comm_key, chosen by the application
  uint8_t* comm_key;
  uint64_t flags;  // FI_*_SET, FI_UNIVERSE
};

struct fid_av_set;

// Later releases added the slots from av_set on: call them through their guarded inlines.
struct fi_ops_av {
  size_t size;
  int (*insert)(struct fid_av* av, const void* addr, size_t count, fi_addr_t* fi_addr, uint64_t flags, void* context);
  int (*insertsvc)(struct fid_av* av, const char* node, const char* service, fi_addr_t* fi_addr, uint64_t flags,
                   void* context);
  int (*insertsym)(struct fid_av* av, const char* node, size_t nodecnt, const char* service, size_t svccnt,
                   fi_addr_t* fi_addr, uint64_t flags, void* context);
  int (*remove)(struct fid_av* av, fi_addr_t* fi_addr, size_t count, uint64_t flags);
  int (*lookup)(struct fid_av* av, fi_addr_t fi_addr, void* addr, size_t* addrlen);
  const char* (*straddr)(struct fid_av* av, const void* addr, char* buf, size_t* len);
  int (*av_set)(struct fid_av* av, struct fi_av_set_attr* attr, struct fid_av_set** av_set, void* context);
  int (*insert_auth_key)(struct fid_av* av, const void* auth_key, size_t auth_key_size, fi_addr_t* fi_addr,
                         uint64_t flags);
  int (*lookup_auth_key)(struct fid_av* av, fi_addr_t fi_addr, void* auth_key, size_t* auth_key_size);
  int (*set_user_id)(struct fid_av* av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags);
  int (*lookup2)(struct fid_av* av, fi_addr_t fi_addr, void* buf, size_t* len, uint64_t flags, struct fid_xpu_ctx* ctx);
};

struct fid_av {
  struct fid fid;
  struct fi_ops_av* ops;
};

// ---- Memory region: fi_mr(3) ----------------------------------------------------------------

// Registration flags.
#define FI_MR_DMABUF (1ULL << 40)         // fi_mr_attr.dmabuf instead of mr_iov
#define FI_MR_SINGLE_USE (1ULL << 41)     // hint: the region serves one transfer
#define FI_HMEM_HOST_ALLOC (1ULL << 45)   // host memory allocated by the device runtime
#define FI_HMEM_DEVICE_ONLY (1ULL << 46)  // memory the host cannot touch

// Registered memory. Closing it ends all access; transfers in flight then fail.
struct fid_mr {
  struct fid fid;
  void* mem_desc;  // fi_mr_desc
  uint64_t key;    // fi_mr_key
};

// Kinds of memory; fi_mr_attr.iface.
enum fi_hmem_iface {
  FI_HMEM_SYSTEM = 0,
  FI_HMEM_CUDA,
  FI_HMEM_ROCR,
  FI_HMEM_ZE,
  FI_HMEM_NEURON,
  FI_HMEM_SYNAPSEAI,
};

// fi_hmem_ze_device: fi_mr_attr.device.ze of a Level Zero driver and device index.
static inline int fi_hmem_ze_device(int driver_index, int device_index) {
  return (driver_index << 16) | device_index;
}

// Part of a DMA buffer to register.
struct fi_mr_dmabuf {
  int fd;
  uint64_t offset;  // bytes from the start of the buffer
  size_t len;       // bytes
  void* base_addr;  // virtual address of the buffer's start, or NULL
};

// With FI_AUTH_KEY, fi_mr_attr.auth_key points to one of these.
struct fi_mr_auth_key {
  struct fid_av* av;
  fi_addr_t src_addr;  // from fi_av_insert_auth_key
};

// Argument of fi_mr_regattr, read up to the members of the fabric's api_version.
struct fi_mr_attr {
  __extension__ union {
    const struct iovec* mr_iov;
    const struct fi_mr_dmabuf* dmabuf;  // with FI_MR_DMABUF; since 1.20
  };
  size_t iov_count;
  uint64_t access;         // FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, _WRITE
  uint64_t offset;         // reserved, 0
  uint64_t requested_key;  // without FI_MR_PROV_KEY: unique in the domain
  void* context;
  size_t auth_key_size;  // bytes; 0: the domain's key. Since 1.5
  uint8_t* auth_key;
  enum fi_hmem_iface iface;  // with FI_HMEM
  union {
    uint64_t reserved;
    int cuda;
    int ze;  // fi_hmem_ze_device
    int neuron;
    int synapseai;
    int rocr;
  } device;
  void* hmem_data;               // private to iface; since 1.19
  size_t page_size;              // bytes, 0 unknown; since 1.22
  const struct fid_mr* base_mr;  // region this one is part of; since 2.0
  size_t sub_mr_cnt;             // parts expected of this region; since 2.0
};

// Argument of FI_REFRESH.
struct fi_mr_modify {
  uint64_t flags;
  struct fi_mr_attr attr;
};

// fi_set_ops(domain, FI_SET_OPS_HMEM_OVERRIDE): copy routines for device memory. Each returns the
// bytes copied or -FI_E...; `offset` counts bytes into the vector.
#define FI_SET_OPS_HMEM_OVERRIDE "hmem_override_ops"

struct fi_hmem_override_ops {
  size_t size;
  ssize_t (*copy_from_hmem_iov)(void* dest, size_t size, enum fi_hmem_iface iface, uint64_t device,
                                const struct iovec* hmem_iov, size_t hmem_iov_count, uint64_t hmem_iov_offset);
  ssize_t (*copy_to_hmem_iov)(enum fi_hmem_iface iface, uint64_t device, const struct iovec* hmem_iov,
                              size_t hmem_iov_count, uint64_t hmem_iov_offset, const void* src, size_t size);
};

// ---- Datatypes and operations: fi_atomic(3), fi_collective(3) -------------------------------

#define FI_COLLECTIVE_OFFSET 256

enum fi_datatype {
  FI_INT8,
  FI_UINT8,
  FI_INT16,
  FI_UINT16,
  FI_INT32,
  FI_UINT32,
  FI_INT64,
  FI_UINT64,
  FI_FLOAT,
  FI_DOUBLE,
  FI_FLOAT_COMPLEX,
  FI_DOUBLE_COMPLEX,
  FI_LONG_DOUBLE,
  FI_LONG_DOUBLE_COMPLEX,
  FI_DATATYPE_LAST,  // deprecated: end of the types of 1.x
  FI_INT128 = FI_DATATYPE_LAST,
  FI_UINT128,
  FI_FLOAT16,      // IEEE 754 half
  FI_BFLOAT16,     // brain floating point
  FI_FLOAT8_E4M3,  // 4 bits exponent, 3 bits mantissa
  FI_FLOAT8_E5M2,

  FI_VOID = FI_COLLECTIVE_OFFSET,  // collectives without data
};

enum fi_op {
  FI_MIN,
  FI_MAX,
  FI_SUM,
  FI_PROD,
  FI_LOR,
  FI_LAND,
  FI_BOR,
  FI_BAND,
  FI_LXOR,
  FI_BXOR,
  FI_ATOMIC_READ,
  FI_ATOMIC_WRITE,
  FI_CSWAP,  // swap when equal; the others: when compare OP target holds
  FI_CSWAP_NE,
  FI_CSWAP_LE,
  FI_CSWAP_LT,
  FI_CSWAP_GE,
  FI_CSWAP_GT,
  FI_MSWAP,           // swap the bits set in compare
  FI_ATOMIC_OP_LAST,  // deprecated: end of the operations of 1.x
  FI_DIFF = FI_ATOMIC_OP_LAST,

  FI_NOOP = FI_COLLECTIVE_OFFSET,  // collectives without operation
};

enum fi_collective_op {
  FI_BARRIER,
  FI_BROADCAST,
  FI_ALLTOALL,
  FI_ALLREDUCE,
  FI_ALLGATHER,
  FI_REDUCE_SCATTER,
  FI_REDUCE,
  FI_SCATTER,
  FI_GATHER,
};

// ---- Domain: fi_domain(3) -------------------------------------------------------------------

struct fi_atomic_attr;
struct fi_cq_attr;
struct fi_cntr_attr;
struct fi_collective_attr;
struct fi_xpu_attr;

// poll_open is deprecated and stays; query_atomic and later slots go through guarded inlines.
struct fi_ops_domain {
  size_t size;
  int (*av_open)(struct fid_domain* domain, struct fi_av_attr* attr, struct fid_av** av, void* context);
  int (*cq_open)(struct fid_domain* domain, struct fi_cq_attr* attr, struct fid_cq** cq, void* context);
  int (*endpoint)(struct fid_domain* domain, struct fi_info* info, struct fid_ep** ep, void* context);
  int (*scalable_ep)(struct fid_domain* domain, struct fi_info* info, struct fid_ep** sep, void* context);
  int (*cntr_open)(struct fid_domain* domain, struct fi_cntr_attr* attr, struct fid_cntr** cntr, void* context);
  int (*poll_open)(struct fid_domain* domain, struct fi_poll_attr* attr, struct fid_poll** pollset);
  int (*stx_ctx)(struct fid_domain* domain, struct fi_tx_attr* attr, struct fid_stx** stx, void* context);
  int (*srx_ctx)(struct fid_domain* domain, struct fi_rx_attr* attr, struct fid_ep** rx_ep, void* context);
  int (*query_atomic)(struct fid_domain* domain, enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr* attr,
                      uint64_t flags);
  int (*query_collective)(struct fid_domain* domain, enum fi_collective_op coll, struct fi_collective_attr* attr,
                          uint64_t flags);
  int (*endpoint2)(struct fid_domain* domain, struct fi_info* info, struct fid_ep** ep, uint64_t flags, void* context);
  int (*xpu_ctx)(struct fid_domain* domain, struct fi_xpu_attr* attr, struct fid_xpu_ctx** ctx, void* context);
};

// `fid` of these calls is the domain's.
struct fi_ops_mr {
  size_t size;
  int (*reg)(struct fid* fid, const void* buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key,
             uint64_t flags, struct fid_mr** mr, void* context);
  int (*regv)(struct fid* fid, const struct iovec* iov, size_t count, uint64_t access, uint64_t offset,
              uint64_t requested_key, uint64_t flags, struct fid_mr** mr, void* context);
  int (*regattr)(struct fid* fid, const struct fi_mr_attr* attr, uint64_t flags, struct fid_mr** mr);
};

// fi_domain_bind flag: registrations complete as FI_MR_COMPLETE on the EQ. Deprecated.
#define FI_REG_MR (1ULL << 59)

struct fid_domain {
  struct fid fid;
  struct fi_ops_domain* ops;
  struct fi_ops_mr* mr;
};

// fi_domain: open the domain that `info` (of fi_getinfo) names. Closed after everything opened in
// it. -FI_EINVAL, -FI_ENODEV, -FI_ENOMEM.
static inline int fi_domain(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** domain,
                            void* context) {
  return fabric->ops->domain(fabric, info, domain, context);
}

// fi_domain2: fi_domain with flags (FI_PEER: context is a fi_peer_domain_context; fi_peer(3)).
// -FI_ENOSYS, -FI_EBADFLAGS when the provider takes no flags.
static inline int fi_domain2(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** domain,
                             uint64_t flags, void* context) {
  if (!flags) return fi_domain(fabric, info, domain, context);
  return FI_CHECK_OP(fabric->ops, struct fi_ops_fabric, domain2)
             ? fabric->ops->domain2(fabric, info, domain, flags, context)
             : -FI_ENOSYS;
}

// fi_domain_bind: bind an EQ for asynchronous operations on the domain; flags 0 or FI_REG_MR.
static inline int fi_domain_bind(struct fid_domain* domain, struct fid* fid, uint64_t flags) {
  return domain->fid.ops->bind(&domain->fid, fid, flags);
}

// fi_cq_open: completion queue; fi_cq(3). -FI_EINVAL without attr, or for an unknown format or wait
// object; -FI_ENOSYS wait object; -FI_EBADFLAGS; -FI_ENOMEM.
static inline int fi_cq_open(struct fid_domain* domain, struct fi_cq_attr* attr, struct fid_cq** cq, void* context) {
  return domain->ops->cq_open(domain, attr, cq, context);
}

// fi_cntr_open: counter, both values 0; fi_cntr(3). Errors as fi_cq_open.
static inline int fi_cntr_open(struct fid_domain* domain, struct fi_cntr_attr* attr, struct fid_cntr** cntr,
                               void* context) {
  return domain->ops->cntr_open(domain, attr, cntr, context);
}

// fi_wait_open: wait set of a fabric; fi_poll(3). Deprecated.
static inline int fi_wait_open(struct fid_fabric* fabric, struct fi_wait_attr* attr, struct fid_wait** waitset) {
  return fabric->ops->wait_open(fabric, attr, waitset);
}

// fi_poll_open: poll set of a domain; fi_poll(3). Deprecated.
static inline int fi_poll_open(struct fid_domain* domain, struct fi_poll_attr* attr, struct fid_poll** pollset) {
  return domain->ops->poll_open(domain, attr, pollset);
}

// ---- Calls: memory region, fi_mr(3) ---------------------------------------------------------

// fi_mr_reg: register `len` bytes at `buf`.
//   acs            access flags, see fi_mr_attr.access.
//   offset         reserved, 0.
//   requested_key  key for peers, ignored with FI_MR_PROV_KEY.
//   flags          0, FI_RMA_EVENT, FI_RMA_PMEM or FI_HMEM_*.
//   mr             closed before the memory is freed; use begins at once unless FI_MR_ENDPOINT or
//                  FI_RMA_EVENT require fi_mr_bind and fi_mr_enable first.
// -FI_ENOKEY key taken or too wide; -FI_EBADFLAGS; -FI_EINVAL; -FI_ENOMEM.
static inline int fi_mr_reg(struct fid_domain* domain, const void* buf, size_t len, uint64_t acs, uint64_t offset,
                            uint64_t requested_key, uint64_t flags, struct fid_mr** mr, void* context) {
  return domain->mr->reg(&domain->fid, buf, len, acs, offset, requested_key, flags, mr, context);
}

// fi_mr_regv: fi_mr_reg of `count` pieces (at most mr_iov_limit) as one region with one key.
static inline int fi_mr_regv(struct fid_domain* domain, const struct iovec* iov, size_t count, uint64_t acs,
                             uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr** mr,
                             void* context) {
  return domain->mr->regv(&domain->fid, iov, count, acs, offset, requested_key, flags, mr, context);
}

// fi_mr_regattr: fi_mr_regv with everything in a structure.
static inline int fi_mr_regattr(struct fid_domain* domain, const struct fi_mr_attr* attr, uint64_t flags,
                                struct fid_mr** mr) {
  return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

// fi_mr_desc: local descriptor for the `desc` arguments of transfers. Valid until close.
static inline void* fi_mr_desc(struct fid_mr* mr) {
  return mr->mem_desc;
}

// fi_mr_key: key to hand to peers; FI_KEY_NOTAVAIL when only fi_mr_raw_attr has it.
static inline uint64_t fi_mr_key(struct fid_mr* mr) {
  return mr->key;
}

#pragma GCC diagnostic push  // calls named like their argument structures, see fi_alias
#pragma GCC diagnostic ignored "-Wshadow"

// fi_mr_raw_attr: base address and key bytes to hand to peers, with FI_MR_RAW. *key_size: in, room;
// out, size. -FI_ETOOSMALL. flags 0.
static inline int fi_mr_raw_attr(struct fid_mr* mr, uint64_t* base_addr, uint8_t* raw_key, size_t* key_size,
                                 uint64_t flags) {
  struct fi_mr_raw_attr attr;
  attr.flags = flags;
  attr.base_addr = base_addr;
  attr.raw_key = raw_key;
  attr.key_size = key_size;
  return mr->fid.ops->control(&mr->fid, FI_GET_RAW_MR, &attr);
}

// fi_mr_map_raw: turn a peer's raw key into a 64-bit key for transfers; released with
// fi_mr_unmap_key. flags 0.
static inline int fi_mr_map_raw(struct fid_domain* domain, uint64_t base_addr, uint8_t* raw_key, size_t key_size,
                                uint64_t* key, uint64_t flags) {
  struct fi_mr_map_raw map;
  map.flags = flags;
  map.base_addr = base_addr;
  map.raw_key = raw_key;
  map.key_size = key_size;
  map.key = key;
  return domain->fid.ops->control(&domain->fid, FI_MAP_RAW_MR, &map);
}

// fi_mr_get_xpu_desc: descriptor of the region for an accelerator (FI_MR_XPU_DESC), `len` bytes at buf. flags FI_XPU.
// -FI_ETOOSMALL; -FI_ENOSYS.
static inline int fi_mr_get_xpu_desc(struct fid_mr* mr, void* buf, size_t len, uint64_t flags,
                                     struct fid_xpu_ctx* ctx) {
  struct fi_mr_xpu_desc desc;
  desc.buf = buf;
  desc.len = len;
  desc.flags = flags;
  desc.ctx = ctx;
  return fi_control(&mr->fid, FI_GET_MR_XPU_DESC, &desc);
}

#pragma GCC diagnostic pop

// fi_mr_unmap_key: release a key of fi_mr_map_raw.
static inline int fi_mr_unmap_key(struct fid_domain* domain, uint64_t key) {
  return domain->fid.ops->control(&domain->fid, FI_UNMAP_KEY, &key);
}

// fi_mr_bind: bind an endpoint (FI_MR_ENDPOINT) or a counter (FI_REMOTE_WRITE, with FI_RMA_EVENT)
// before fi_mr_enable.
static inline int fi_mr_bind(struct fid_mr* mr, struct fid* bfid, uint64_t flags) {
  return mr->fid.ops->bind(&mr->fid, bfid, flags);
}

// fi_mr_refresh: report that pages of these pieces of the region changed (FI_MR_MMU_NOTIFY). flags 0.
static inline int fi_mr_refresh(struct fid_mr* mr, const struct iovec* iov, size_t count, uint64_t flags) {
  struct fi_mr_modify modify;
  memset(&modify, 0, sizeof(modify));
  modify.flags = flags;
  modify.attr.mr_iov = iov;
  modify.attr.iov_count = count;
  return mr->fid.ops->control(&mr->fid, FI_REFRESH, &modify);
}

// fi_mr_enable: make a bound region usable.
static inline int fi_mr_enable(struct fid_mr* mr) {
  return mr->fid.ops->control(&mr->fid, FI_ENABLE, NULL);
}

// ---- Calls: address vector, fi_av(3) --------------------------------------------------------

// fi_av_open: address vector; unspecified attr->type and map_addr are written back. Closed after the
// endpoints bound to it. -FI_EINVAL, -FI_ENOSYS, -FI_ENOMEM.
static inline int fi_av_open(struct fid_domain* domain, struct fi_av_attr* attr, struct fid_av** av, void* context) {
  return domain->ops->av_open(domain, attr, av, context);
}

// fi_av_bind: EQ for asynchronous inserts (AV opened with FI_EVENT); flags 0. Deprecated.
static inline int fi_av_bind(struct fid_av* av, struct fid* fid, uint64_t flags) {
  return av->fid.ops->bind(&av->fid, fid, flags);
}

// fi_av_insert: add `count` addresses.
//   addr     packed array of addresses in the domain's addr_format; FI_ADDR_STR: array of char *.
//   fi_addr  out, one handle each, FI_ADDR_NOTAVAIL where it failed; may be NULL for FI_AV_TABLE.
//            Must live until the event when asynchronous.
//   flags    0, FI_MORE, FI_SYNC_ERR, FI_AV_USER_ID (fi_addr is also input: the ids), FI_AUTH_KEY
//            (fi_addr is also input: handles of keys), FI_FIREWALL_ADDR.
// Returns the number added. AV opened with FI_EVENT: 0, then on the EQ one error entry per failed
// address and finally FI_AV_COMPLETE. -FI_EINVAL, -FI_ENOEQ, -FI_ENOMEM. A duplicate is an error of
// the caller that may stay undetected.
static inline int fi_av_insert(struct fid_av* av, const void* addr, size_t count, fi_addr_t* fi_addr, uint64_t flags,
                               void* context) {
  return av->ops->insert(av, addr, count, fi_addr, flags, context);
}

// fi_av_insertsvc: fi_av_insert of one address, resolved from node and service.
static inline int fi_av_insertsvc(struct fid_av* av, const char* node, const char* service, fi_addr_t* fi_addr,
                                  uint64_t flags, void* context) {
  return av->ops->insertsvc(av, node, service, fi_addr, flags, context);
}

// fi_av_insertsym: fi_av_insert of nodecnt x svccnt addresses, counting up the number at the end of
// `node` (slower) and `service` (faster).
static inline int fi_av_insertsym(struct fid_av* av, const char* node, size_t nodecnt, const char* service,
                                  size_t svccnt, fi_addr_t* fi_addr, uint64_t flags, void* context) {
  return av->ops->insertsym(av, node, nodecnt, service, svccnt, fi_addr, flags, context);
}

// fi_av_remove: drop addresses; transfers to them must have completed. flags 0.
static inline int fi_av_remove(struct fid_av* av, fi_addr_t* fi_addr, size_t count, uint64_t flags) {
  return av->ops->remove(av, fi_addr, count, flags);
}

// fi_av_lookup: address behind a handle, cut to the room given. *addrlen: in, room; out, the size
// of the address. -FI_EINVAL unknown handle.
static inline int fi_av_lookup(struct fid_av* av, fi_addr_t fi_addr, void* addr, size_t* addrlen) {
  return av->ops->lookup(av, fi_addr, addr, addrlen);
}

// fi_av_lookup2: with flags 0, fi_av_lookup. With FI_XPU, the address in the form for the accelerator of `ctx`. *len:
// in, room; out, size. -FI_ETOOSMALL; -FI_ENOSYS flags or provider without it.
static inline int fi_av_lookup2(struct fid_av* av, fi_addr_t fi_addr, void* buf, size_t* len, uint64_t flags,
                                struct fid_xpu_ctx* ctx) {
  return FI_CHECK_OP(av->ops, struct fi_ops_av, lookup2) ? av->ops->lookup2(av, fi_addr, buf, len, flags, ctx)
                                                         : -FI_ENOSYS;
}

// fi_av_straddr: text of an address in buf, cut to *len bytes with the NUL; *len: out, bytes of the
// whole text. Returns buf.
static inline const char* fi_av_straddr(struct fid_av* av, const void* addr, char* buf, size_t* len) {
  return av->ops->straddr(av, addr, buf, len);
}

// fi_av_insert_auth_key: add an authorisation key, get its handle. Needs a domain opened with
// FI_AV_AUTH_KEY. flags 0. -FI_ENOSYS.
static inline int fi_av_insert_auth_key(struct fid_av* av, const void* auth_key, size_t auth_key_size,
                                        fi_addr_t* fi_addr, uint64_t flags) {
  return FI_CHECK_OP(av->ops, struct fi_ops_av, insert_auth_key)
             ? av->ops->insert_auth_key(av, auth_key, auth_key_size, fi_addr, flags)
             : -FI_ENOSYS;
}

// fi_av_lookup_auth_key: key behind a handle. *auth_key_size: in, room; out, size. -FI_ENOSYS.
static inline int fi_av_lookup_auth_key(struct fid_av* av, fi_addr_t addr, void* auth_key, size_t* auth_key_size) {
  return FI_CHECK_OP(av->ops, struct fi_ops_av, lookup_auth_key)
             ? av->ops->lookup_auth_key(av, addr, auth_key, auth_key_size)
             : -FI_ENOSYS;
}

// fi_av_set_user_id: number to report as source instead of the handle; AV opened with
// FI_AV_USER_ID. flags 0. -FI_ENOSYS.
static inline int fi_av_set_user_id(struct fid_av* av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags) {
  return FI_CHECK_OP(av->ops, struct fi_ops_av, set_user_id) ? av->ops->set_user_id(av, fi_addr, user_id, flags)
                                                             : -FI_ENOSYS;
}

// fi_rx_addr: handle of receive context rx_index behind fi_addr (FI_NAMED_RX_CTX); rx_ctx_bits as in
// the fi_av_attr.
static inline fi_addr_t fi_rx_addr(fi_addr_t fi_addr, int rx_index, int rx_ctx_bits) {
  return rx_ctx_bits ? (((uint64_t)rx_index << (64 - rx_ctx_bits)) | fi_addr) : fi_addr;
}

// fi_group_addr: handle that carries a peer group id (up to domain_attr.max_group_id) in its upper
// 32 bits.
static inline fi_addr_t fi_group_addr(fi_addr_t fi_addr, uint32_t group_id) {
  return ((uint64_t)group_id << 32) | fi_addr;
}

#ifdef __cplusplus
}
#endif

#endif  // FI_DOMAIN_H
