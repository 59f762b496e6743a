// SPDX-License-Identifier: BSD-2-Clause
//
// Accelerators (XPUs) that drive endpoints, completion queues and counters by themselves: contexts
// and exported handles. Governed by fi_xpu(3), new in 2.7. The calls for code that runs on the
// accelerator are in fi_xpu_device.h; fi_ep_export_xpu, fi_cq_export_xpu and fi_cntr_export_xpu are
// beside the other calls of those objects.
//
// No provider of this library offers FI_XPU: every call answers -FI_ENOSYS.

#ifndef FI_XPU_H
#define FI_XPU_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

// Threads of the accelerator that issue one operation together; `scope` in fi_xpu_device.h.
enum {
  FI_XPU_WORK_ITEM,   // a single thread
  FI_XPU_SUBGROUP,    // a warp or wavefront
  FI_XPU_WORK_GROUP,  // a thread block
  FI_XPU_DEVICE,      // all threads
};

// Flags of fi_xpu_ops.alloc: the memory must be exportable as a DMA buffer.
#define FI_XPU_ALLOC_DMABUF (1ULL << 0)

// Flags of fi_xpu_ops.import.
#define FI_XPU_IMPORT_IOMEMORY (1ULL << 0)   // host_addr is memory of a PCIe device
#define FI_XPU_IMPORT_DEVICEMAP (1ULL << 1)  // kernels of the accelerator use dev_addr

// Memory of an accelerator: functions of the application that a provider calls. Each int result is
// 0 or -FI_E...; sizes and alignments are bytes.
struct fi_xpu_ops {
  size_t size;  // bytes of this table
  int (*alloc)(uint64_t device, uint64_t size, uint64_t alignment, uint64_t flags, void** addr, int* fd,
               uint64_t* offset);
  int (*import)(uint64_t device, void* host_addr, uint64_t size, uint64_t flags, void** dev_addr);
  void (*free)(uint64_t device, void* addr);
};

// Argument of fi_xpu_ctx: the accelerator.
struct fi_xpu_attr {
  enum fi_hmem_iface iface;
  uint64_t device;  // index or handle, as iface numbers its devices
  struct fi_xpu_ops* ops;
};

// fi_xpu_ctx_attr.caps: objects that may be exported.
#define FI_XPU_CAP_EP (1ULL << 0)
#define FI_XPU_CAP_CQ (1ULL << 1)
#define FI_XPU_CAP_CNTR (1ULL << 2)

// Result of fi_xpu_ctx_query.
struct fi_xpu_ctx_attr {
  uint64_t caps;        // FI_XPU_CAP_*
  size_t av_addr_size;  // bytes of an address of fi_av_lookup2 with FI_XPU
  size_t mr_desc_size;  // bytes of a descriptor of fi_mr_get_xpu_desc
};

struct fi_ops_xpu_ctx {
  size_t size;
  int (*query)(struct fid_xpu_ctx* ctx, struct fi_xpu_ctx_attr* attr);
};

// One accelerator in one domain. Closed after the objects that were opened with it.
struct fid_xpu_ctx {
  struct fid fid;
  struct fi_ops_xpu_ctx* ops;
};

// Identifiers of providers, for code on the accelerator.
enum fi_xpu_provider {
  FI_XPU_PROV_EFA = 1,
};

// Start of every exported handle. The application provides the memory, the export call fills it.
struct fid_xpu {
  uint32_t fclass;    // FI_CLASS_EP, FI_CLASS_CQ or FI_CLASS_CNTR
  uint32_t prov_id;   // enum fi_xpu_provider
  uint64_t prov_ctx;  // private to the provider
};

struct fid_xpu_ep {
  struct fid_xpu fid;
};

struct fid_xpu_cq {
  struct fid_xpu fid;
};

struct fid_xpu_cntr {
  struct fid_xpu fid;
};

#pragma GCC diagnostic push  // calls named like their argument structures, see fi_alias
#pragma GCC diagnostic ignored "-Wshadow"

// fi_xpu_ctx: open a context for an accelerator. domain_attr.max_xpu_ctx_cnt limits their number.
// -FI_ENOSYS.
static inline int fi_xpu_ctx(struct fid_domain* domain, struct fi_xpu_attr* attr, struct fid_xpu_ctx** ctx,
                             void* context) {
  return FI_CHECK_OP(domain->ops, struct fi_ops_domain, xpu_ctx) ? domain->ops->xpu_ctx(domain, attr, ctx, context)
                                                                 : -FI_ENOSYS;
}

#pragma GCC diagnostic pop

// fi_xpu_ctx_query: the properties of a context.
static inline int fi_xpu_ctx_query(struct fid_xpu_ctx* ctx, struct fi_xpu_ctx_attr* attr) {
  return ctx->ops->query(ctx, attr);
}

#ifdef __cplusplus
}
#endif

#endif  // FI_XPU_H
