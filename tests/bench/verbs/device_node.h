// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over raw verbs, with the common parts of rdma_node.h and ud_node.h: an rdma_cm event
// channel, an id bound to the device's address, a protection domain and one completion queue. Every error ends the
// process with its reason. See rdma_cm(7).
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

#include "process/measurement.h"
#include "process/process_pair.h"

namespace bench {

inline constexpr unsigned kQueueDepth = 126;  // work requests of each direction, as many as weft has by default
inline constexpr unsigned kInlineBytes = 64;  // bytes in a work request
inline constexpr unsigned kPieces = 4;        // memory pieces of a work request, as many as by default in fabrics

class DeviceNode {
 public:
  DeviceNode(const DeviceNode&) = delete;
  DeviceNode& operator=(const DeviceNode&) = delete;

  virtual ibv_qp* qp(std::size_t index) const = 0;
  // The destination of every send.
  virtual void address(ibv_send_wr&) const {}
  // Bytes that the device writes in front of a received message.
  virtual std::size_t header() const { return 0; }
  ibv_pd* pd() const { return pd_; }
  ibv_cq* cq() const { return cq_; }

 protected:
  struct Event {
    rdma_cm_event_type type;
    rdma_cm_id* id;
    rdma_ud_param ud;  // from MULTICAST_JOIN
  };

  DeviceNode(const Measurement& m, rdma_port_space service);
  virtual ~DeviceNode();

  // Waits for the next event that matters.
  Event next_event();
  ibv_qp_init_attr queue_pair_attributes(ibv_qp_type type) const;

  sockaddr_in address_{};
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* bound_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

// For calls that return an errno.
void check_verbs(const char* what, int error);
// For calls that return nullptr and set errno.
template <class Object>
Object* check_object(const char* what, Object* object) {
  if (object == nullptr) check(what, -1);
  return object;
}

}  // namespace bench
