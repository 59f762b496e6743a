// SPDX-License-Identifier: BSD-2-Clause
//
// Calls for code that runs on an accelerator, on the handles that fi_ep_export_xpu,
// fi_cq_export_xpu and fi_cntr_export_xpu filled. Governed by fi_xpu(3), new in 2.7. Addresses are
// those of fi_av_lookup2, descriptors those of fi_mr_get_xpu_desc. `scope` names the threads that
// issue the call together (FI_XPU_WORK_ITEM ... FI_XPU_DEVICE).
//
// The provider of a handle is found by its prov_id. No provider of this library exports handles: the
// calls answer -FI_ENOSYS, counters read as 0.

#ifndef FI_XPU_DEVICE_H
#define FI_XPU_DEVICE_H

#include <rdma/fi_errno.h>
#include <rdma/fi_xpu.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define FI_XPU_CALL __device__ static inline
#else
#define FI_XPU_CALL static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC diagnostic push  // no provider uses the arguments
#pragma GCC diagnostic ignored "-Wunused-parameter"

// fi_xpu_write / fi_xpu_read: access to remote memory; fi_rma(3).
FI_XPU_CALL int fi_xpu_write(struct fid_xpu_ep* ep, const void* buf, size_t len, void* desc, uint64_t data,
                             void* dest_addr, uint64_t addr, uint64_t key, void* context, uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int fi_xpu_read(struct fid_xpu_ep* ep, void* buf, size_t len, void* desc, void* src_addr, uint64_t addr,
                            uint64_t key, void* context, uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

// fi_xpu_send / fi_xpu_recv: messages; fi_msg(3).
FI_XPU_CALL int fi_xpu_send(struct fid_xpu_ep* ep, const void* buf, size_t len, void* desc, uint64_t data,
                            void* dest_addr, void* context, uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int fi_xpu_recv(struct fid_xpu_ep* ep, void* buf, size_t len, void* desc, void* src_addr, void* context,
                            uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

// fi_xpu_tsend / fi_xpu_trecv: tagged messages; fi_tagged(3).
FI_XPU_CALL int fi_xpu_tsend(struct fid_xpu_ep* ep, const void* buf, size_t len, void* desc, uint64_t data,
                             void* dest_addr, uint64_t tag, void* context, uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int fi_xpu_trecv(struct fid_xpu_ep* ep, void* buf, size_t len, void* desc, void* src_addr, uint64_t tag,
                             uint64_t ignore, void* context, uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

// fi_xpu_atomic / fi_xpu_fetch_atomic / fi_xpu_compare_atomic: atomic operations; fi_atomic(3).
// datatype is an enum fi_datatype, op an enum fi_op.
FI_XPU_CALL int fi_xpu_atomic(struct fid_xpu_ep* ep, const void* buf, size_t count, void* desc, void* dest_addr,
                              uint64_t addr, uint64_t key, int datatype, int op, void* context, uint64_t flags,
                              int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int fi_xpu_fetch_atomic(struct fid_xpu_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                    void* result_desc, void* dest_addr, uint64_t addr, uint64_t key, int datatype,
                                    int op, void* context, uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int fi_xpu_compare_atomic(struct fid_xpu_ep* ep, const void* buf, size_t count, void* desc,
                                      const void* compare, void* compare_desc, void* result, void* result_desc,
                                      void* dest_addr, uint64_t addr, uint64_t key, int datatype, int op, void* context,
                                      uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

// fi_xpu_cntr_read / fi_xpu_cntr_readerr: number of successes, of failures; fi_cntr(3).
FI_XPU_CALL uint64_t fi_xpu_cntr_read(struct fid_xpu_cntr* cntr, int scope) {
  return 0;
}

FI_XPU_CALL uint64_t fi_xpu_cntr_readerr(struct fid_xpu_cntr* cntr, int scope) {
  return 0;
}

// fi_xpu_cntr_wait: block up to `timeout` ms until successes reach `threshold`.
FI_XPU_CALL void fi_xpu_cntr_wait(struct fid_xpu_cntr* cntr, uint64_t threshold, int timeout, int scope) {}

// fi_xpu_cntr_add / _set / _adderr / _seterr: change a value.
FI_XPU_CALL int fi_xpu_cntr_add(struct fid_xpu_cntr* cntr, uint64_t value, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int fi_xpu_cntr_set(struct fid_xpu_cntr* cntr, uint64_t value, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int fi_xpu_cntr_adderr(struct fid_xpu_cntr* cntr, uint64_t value, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int fi_xpu_cntr_seterr(struct fid_xpu_cntr* cntr, uint64_t value, int scope) {
  return -FI_ENOSYS;
}

// fi_xpu_cq_read / _readfrom / _readerr / _sread / _sreadfrom: completions; fi_cq(3). src_addr is an
// array of `count` addresses of av_addr_size bytes.
FI_XPU_CALL int64_t fi_xpu_cq_read(struct fid_xpu_cq* cq, void* buf, size_t count, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int64_t fi_xpu_cq_readfrom(struct fid_xpu_cq* cq, void* buf, size_t count, void* src_addr, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int64_t fi_xpu_cq_readerr(struct fid_xpu_cq* cq, void* buf, uint64_t flags, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int64_t fi_xpu_cq_sread(struct fid_xpu_cq* cq, void* buf, size_t count, size_t threshold, int scope) {
  return -FI_ENOSYS;
}

FI_XPU_CALL int64_t fi_xpu_cq_sreadfrom(struct fid_xpu_cq* cq, void* buf, size_t count, void* src_addr,
                                        size_t threshold, int scope) {
  return -FI_ENOSYS;
}

#pragma GCC diagnostic pop

#ifdef __cplusplus
}
#endif

#undef FI_XPU_CALL

#endif  // FI_XPU_DEVICE_H
