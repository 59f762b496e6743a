// SPDX-License-Identifier: BSD-2-Clause
// Events of librdmacm, copied so that the original is acknowledged before a handler runs; rdma_get_cm_event(3). And the
// owner of an rdma_cm_id.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace weft::verbs {

struct DestroyCmId {
  // Never waits, because every event is acknowledged before its handler runs.
  void operator()(rdma_cm_id* id) const noexcept { rdma_destroy_id(id); }
};
using CmIdHandle = std::unique_ptr<rdma_cm_id, DestroyCmId>;

struct RdmaEvent {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;         // RDMA_CM_EVENT_CONNECT_REQUEST: a new one, owned by the handler from then on
  rdma_conn_param param;  // its private data is below
  rdma_ud_param ud;       // instead of `param` for datagram services and groups; without private data
  std::array<std::byte, 256> private_data;

  std::span<const std::byte> data() const noexcept { return {private_data.data(), param.private_data_len}; }
};

}  // namespace weft::verbs
