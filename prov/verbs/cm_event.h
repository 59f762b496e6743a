// SPDX-License-Identifier: BSD-2-Clause
// What librdmacm tells of a connection, copied so that the original can be acknowledged before anybody acts on it;
// rdma_get_cm_event(3). And the owner of an rdma_cm_id.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace weft::verbs {

struct DestroyCmId {
  // Never waits: every event is acknowledged before anything else happens.
  void operator()(rdma_cm_id* id) const noexcept { rdma_destroy_id(id); }
};
using CmIdHandle = std::unique_ptr<rdma_cm_id, DestroyCmId>;

struct DestroyQueuePair {
  // One that the device does not let go may still raise events: they find nobody.
  void operator()(ibv_qp* qp) const noexcept {
    if (ibv_destroy_qp(qp) != 0) qp->qp_context = nullptr;
  }
};
using QueuePairHandle = std::unique_ptr<ibv_qp, DestroyQueuePair>;

struct RdmaEvent {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;         // RDMA_CM_EVENT_CONNECT_REQUEST: a new one, the handler's to own
  rdma_conn_param param;  // its private data is below
  rdma_ud_param ud;       // of datagram services and groups instead; without private data
  std::array<std::byte, 256> private_data;

  std::span<const std::byte> data() const noexcept { return {private_data.data(), param.private_data_len}; }
};

}  // namespace weft::verbs
