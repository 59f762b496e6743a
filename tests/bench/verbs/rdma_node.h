// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over raw verbs: an rdma_cm event channel, a protection domain, one
// completion queue, and connected queue pairs that all share them. Every error ends the process with its reason. See
// rdma_cm(7), ibv_create_qp(3).
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "process/measurement.h"
#include "process/process_pair.h"

namespace bench {

inline constexpr unsigned kQueueDepth = 126;  // work requests of each direction, as many as weft has by default
inline constexpr unsigned kInlineBytes = 64;  // that a work request may carry itself

class RdmaNode {
 public:
  // The server listens on a free port and tells it over the channel; the client gets it from there.
  RdmaNode(const Measurement& m, Role role, Channel& channel);
  ~RdmaNode();
  RdmaNode(const RdmaNode&) = delete;
  RdmaNode& operator=(const RdmaNode&) = delete;

  // Server: accepts until `count` more queue pairs are connected.
  void accept(std::size_t count);
  // Client: connects `count` more queue pairs, at most `outstanding` at once.
  void connect(std::size_t count, std::size_t outstanding);
  // Makes `count` connections from both sides. The first of either side is the same connection.
  void establish(std::size_t count);
  // Waits until the peer has come to the same point; then closes every connection.
  void leave(Channel& channel);

  // Server: accepts `count` connections and closes each when its peer leaves.
  void serve_short_connections(std::size_t count);
  // Client: connects, and closes as soon as it is connected.
  void connect_and_close();

  ibv_qp* qp(std::size_t index) const { return ids_[index]->qp; }
  ibv_pd* pd() const { return pd_; }
  ibv_cq* cq() const { return cq_; }

 private:
  struct Event {
    rdma_cm_event_type type;
    rdma_cm_id* id;
  };

  Event next_event();
  rdma_cm_id* start_connect();
  void go_on_connecting(const Event& event);
  void accept_request(rdma_cm_id* id);
  void create_qp(rdma_cm_id* id);
  static void close(rdma_cm_id* id);
  rdma_conn_param connection_parameters() const;

  Role role_;
  sockaddr_in address_{};
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* bound_ = nullptr;  // the listener, or an id that only tells the device
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::uint8_t reads_to_peer_ = 0;    // RDMA reads under way at once, as the device allows
  std::uint8_t reads_from_peer_ = 0;  // the same for the peer's
  std::vector<rdma_cm_id*> ids_;
};

// For calls that answer an errno.
void check_verbs(const char* what, int error);
// For calls that answer nullptr and set errno.
template <class Object>
Object* check_object(const char* what, Object* object) {
  if (object == nullptr) check(what, -1);
  return object;
}

}  // namespace bench
