// SPDX-License-Identifier: BSD-2-Clause
// The calls that are counted and can be made to fail; without calls that return nothing, or fail only for a null
// pointer.
#pragma once
#include <cstdint>

// One call a line or so; the formatter finds no stable layout for such lists.
// clang-format off
#define FAKE_RDMACM_CALLS(X)                                                                                 \
  X(rdma_create_event_channel)                                                                               \
  X(rdma_create_id)                                                                                          \
  X(rdma_create_ep)                                                                                          \
  X(rdma_destroy_id)                                                                                         \
  X(rdma_bind_addr)                                                                                          \
  X(rdma_resolve_addr)                                                                                       \
  X(rdma_resolve_route)                                                                                      \
  X(rdma_create_qp)                                                                                          \
  X(rdma_connect)                                                                                            \
  X(rdma_establish)                                                                                          \
  X(rdma_listen)                                                                                             \
  X(rdma_get_request) X(rdma_accept) X(rdma_reject) X(rdma_notify) X(rdma_disconnect) X(rdma_join_multicast) \
      X(rdma_leave_multicast) X(rdma_get_cm_event) X(rdma_get_devices) X(rdma_set_option) X(rdma_migrate_id) \
          X(rdma_getaddrinfo) X(rdma_init_qp_attr) X(cm_modify_qp)

#define FAKE_VERBS_CALLS(X)                                                                                           \
  X(ibv_get_device_list)                                                                                              \
  X(ibv_open_device)                                                                                                  \
  X(ibv_close_device)                                                                                                 \
  X(ibv_query_device)                                                                                                 \
  X(ibv_query_port)                                                                                                   \
  X(ibv_query_gid)                                                                                                    \
  X(ibv_query_gid_table)                                                                                              \
  X(ibv_query_pkey)                                                                                                   \
  X(ibv_get_async_event)                                                                                              \
  X(ibv_alloc_pd)                                                                                                     \
  X(ibv_dealloc_pd) X(ibv_reg_mr) X(ibv_reg_dmabuf_mr) X(ibv_dereg_mr) X(ibv_create_comp_channel)                     \
      X(ibv_destroy_comp_channel) X(ibv_create_cq) X(ibv_resize_cq) X(ibv_destroy_cq) X(ibv_get_cq_event)             \
          X(ibv_poll_cq) X(ibv_req_notify_cq) X(ibv_create_srq) X(ibv_modify_srq) X(ibv_query_srq) X(ibv_destroy_srq) \
              X(ibv_post_srq_recv) X(ibv_create_qp) X(ibv_modify_qp) X(ibv_query_qp) X(ibv_destroy_qp)                \
                  X(ibv_post_send) X(ibv_post_recv) X(ibv_create_ah) X(ibv_destroy_ah) X(ibv_attach_mcast)            \
                      X(ibv_detach_mcast) X(ibv_fork_init)
// clang-format on

namespace fake {

enum class Call {
#define FAKE_ENUMERATOR(name) name,
  FAKE_RDMACM_CALLS(FAKE_ENUMERATOR) FAKE_VERBS_CALLS(FAKE_ENUMERATOR)
#undef FAKE_ENUMERATOR
      kCount
};

constexpr const char* kCallNames[] = {
#define FAKE_NAME(name) #name,
    FAKE_RDMACM_CALLS(FAKE_NAME) FAKE_VERBS_CALLS(FAKE_NAME)
#undef FAKE_NAME
};

inline const char* name_of(Call call) {
  return kCallNames[static_cast<int>(call)];
}

struct CallState {
  uint64_t count = 0;
  uint64_t fail_at = 0;  // value of count at which it fails; 0: never
  int error = 0;
  int milliseconds = 0;  // duration
};

}  // namespace fake
