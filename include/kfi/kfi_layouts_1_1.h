// SPDX-License-Identifier: BSD-2-Clause
//
// The structures of API 1.1 whose layouts differ from those of 1.7. kfabric.h includes it; the library, which serves
// both generations, gives them names of their own by KFI_1_1.
#ifndef KFI_LAYOUTS_1_1_H
#define KFI_LAYOUTS_1_1_H

#include "kfabric.h"

#if KFI_API < 0x10007 || defined(KFI_1_1)

#ifndef KFI_1_1
#define KFI_1_1(name) name
#endif

enum KFI_1_1(kfi_mr_mode) { KFI_MR_UNSPEC, KFI_MR_BASIC, KFI_MR_SCALABLE };

// ---- Attributes -----------------------------------------------------------------------------------------------------

struct KFI_1_1(kfi_tx_attr) {
  uint64_t caps;
  uint64_t mode;
  uint64_t op_flags;
  uint64_t msg_order;
  uint64_t comp_order;
  size_t inject_size;
  size_t size;
  size_t iov_limit;
  size_t rma_iov_limit;
};

struct KFI_1_1(kfi_rx_attr) {
  uint64_t caps;
  uint64_t mode;
  uint64_t op_flags;
  uint64_t msg_order;
  uint64_t comp_order;
  size_t total_buffered_recv;
  size_t total_buffered_recv_mtu;
  size_t size;
  size_t iov_limit;
};

struct KFI_1_1(kfi_ep_attr) {
  enum kfi_ep_type type;
  uint32_t protocol;
  uint32_t protocol_version;
  size_t max_msg_size;
  size_t msg_prefix_size;
  size_t max_order_raw_size;
  size_t max_order_war_size;
  size_t max_order_waw_size;
  uint64_t mem_tag_format;
  size_t tx_ctx_cnt;
  size_t rx_ctx_cnt;
};

struct KFI_1_1(kfi_domain_attr) {
  struct kfid_domain* domain;
  char* name;
  enum kfi_threading threading;
  enum kfi_progress control_progress;
  enum kfi_progress data_progress;
  enum kfi_resource_mgmt resource_mgmt;
  enum kfi_av_type av_type;
  enum KFI_1_1(kfi_mr_mode) mr_mode;
  size_t mr_key_size;
  size_t cq_data_size;
  size_t cq_cnt;
  size_t ep_cnt;
  size_t tx_ctx_cnt;
  size_t rx_ctx_cnt;
  size_t max_ep_tx_ctx;
  size_t max_ep_rx_ctx;
  size_t max_ep_stx_ctx;
  size_t max_ep_srx_ctx;
};

struct KFI_1_1(kfi_fabric_attr) {
  struct kfid_fabric* fabric;
  char* name;
  char* prov_name;
  uint32_t prov_version;
};

struct KFI_1_1(kfi_info) {
  struct KFI_1_1(kfi_info) * next;
  uint64_t caps;
  uint64_t mode;
  uint32_t addr_format;
  size_t src_addrlen;
  size_t dest_addrlen;
  void* src_addr;
  void* dest_addr;
  kfi_connreq_t connreq;  // equal to `handle`, which counts if both are set
  struct KFI_1_1(kfi_tx_attr) * tx_attr;
  struct KFI_1_1(kfi_rx_attr) * rx_attr;
  struct KFI_1_1(kfi_ep_attr) * ep_attr;
  struct KFI_1_1(kfi_domain_attr) * domain_attr;
  struct KFI_1_1(kfi_fabric_attr) * fabric_attr;
  kfid_t handle;
};

// ---- Error entries --------------------------------------------------------------------------------------------------

// err_data of both is the library's until the next read of an error.
struct KFI_1_1(kfi_eq_err_entry) {
  kfid_t fid;
  void* context;
  uint64_t data;
  int err;
  int prov_errno;
  void* err_data;
};

struct KFI_1_1(kfi_cq_err_entry) {
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;
  uint64_t data;
  uint64_t tag;
  size_t olen;
  int err;
  int prov_errno;
  void* err_data;
};

// ---- Memory and messages --------------------------------------------------------------------------------------------

struct KFI_1_1(kfi_mr_attr) {
  const struct kvec* mr_iov;
  size_t iov_count;
  uint64_t access;
  uint64_t offset;
  uint64_t requested_key;
  void* context;
};

// `fid` is the domain's.
struct KFI_1_1(kfi_ops_mr) {
  size_t size;
  int (*reg)(struct kfid* fid, const void* buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key,
             uint64_t flags, struct kfid_mr** mr, void* context, uint64_t* dma_addr);
  int (*regv)(struct kfid* fid, const struct kvec* iov, size_t count, uint64_t access, uint64_t offset,
              uint64_t requested_key, uint64_t flags, struct kfid_mr** mr, void* context);
  int (*regattr)(struct kfid* fid, const struct KFI_1_1(kfi_mr_attr) * attr, uint64_t flags, struct kfid_mr** mr);
};

struct kfi_rma_iov;

struct KFI_1_1(kfi_msg) {
  const struct kvec* msg_iov;
  void** desc;
  size_t iov_count;
  kfi_addr_t addr;
  void* context;
  uint64_t data;
};

struct KFI_1_1(kfi_msg_rma) {
  const struct kvec* msg_iov;
  void** desc;
  size_t iov_count;
  kfi_addr_t addr;
  const struct kfi_rma_iov* rma_iov;
  size_t rma_iov_count;
  void* context;
  uint64_t data;
};

struct KFI_1_1(kfi_msg_tagged) {
  const struct kvec* msg_iov;
  void** desc;
  size_t iov_count;
  kfi_addr_t addr;
  uint64_t tag;
  uint64_t ignore;
  void* context;
  uint64_t data;
};

#endif  // API 1.1

#endif  // KFI_LAYOUTS_1_1_H
