// SPDX-License-Identifier: BSD-2-Clause
// The attribute structures as programs of each version node were compiled with them. NODE is ten times the node: 10 for
// FABRIC_1.0 up to 19 for FABRIC_1.9, and 110 for FABRIC_1.10. Written from the growth table of the ABI, on purpose
// without <rdma/*>: only what is new in a node's release is conditional, so that an old program's sizes and offsets
// come out.
#ifndef WEFT_TESTS_ABI_OLD_LAYOUT_H
#define WEFT_TESTS_ABI_OLD_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

struct fid;

struct old_ops {
  size_t size;
  int (*close)(struct fid* fid);
  int (*bind)(struct fid* fid, struct fid* other, uint64_t flags);
  int (*control)(struct fid* fid, int command, void* argument);
  int (*ops_open)(struct fid* fid, const char* name, uint64_t flags, void** ops, void* context);
};

struct fid {
  size_t fclass;
  void* context;
  struct old_ops* ops;
};

struct old_fabric {
  struct fid fid;
  void* ops;
  uint32_t api_version;
};

struct old_nic {
  struct fid fid;
  void *device_attr, *bus_attr, *link_attr, *prov_attr;
};

struct old_tx_attr {
  uint64_t caps, mode, op_flags, msg_order, comp_order;
  size_t inject_size, size, iov_limit, rma_iov_limit;
#if NODE >= 13
  uint32_t tclass;
#endif
};

struct old_rx_attr {
  uint64_t caps, mode, op_flags, msg_order, comp_order;
  size_t total_buffered_recv, size, iov_limit;
};

struct old_ep_attr {
  int type;
  uint32_t protocol, protocol_version;
  size_t max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size;
  uint64_t mem_tag_format;
  size_t tx_ctx_cnt, rx_ctx_cnt;
#if NODE >= 11
  size_t auth_key_size;
  uint8_t* auth_key;
#endif
#if NODE >= 110
  void* xpu_ctx;
#endif
};

struct old_domain_attr {
  void* domain;
  char* name;
  int threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode;
  size_t mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt;
  size_t max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx;
#if NODE >= 11
  size_t cntr_cnt, mr_iov_limit;
  uint64_t caps, mode;
  uint8_t* auth_key;
  size_t auth_key_size, max_err_data, mr_cnt;
#endif
#if NODE >= 13
  uint32_t tclass;
#endif
#if NODE >= 17
  size_t max_ep_auth_key;
#endif
#if NODE >= 18
  uint32_t max_group_id;
#endif
#if NODE >= 19
  uint64_t max_cntr_value, max_err_cntr_value;
#endif
#if NODE >= 110
  size_t max_xpu_ctx_cnt;
#endif
};

struct old_fabric_attr {
  void* fabric;
  char *name, *prov_name;
  uint32_t prov_version;
#if NODE >= 11
  uint32_t api_version;
#endif
};

struct old_info {
  struct old_info* next;
  uint64_t caps, mode;
  uint32_t addr_format;
  size_t src_addrlen, dest_addrlen;
  void *src_addr, *dest_addr;
  struct fid* handle;
  struct old_tx_attr* tx_attr;
  struct old_rx_attr* rx_attr;
  struct old_ep_attr* ep_attr;
  struct old_domain_attr* domain_attr;
  struct old_fabric_attr* fabric_attr;
#if NODE >= 12
  struct old_nic* nic;
#endif
};

#endif  // WEFT_TESTS_ABI_OLD_LAYOUT_H
