// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over raw verbs and connected queue pairs, which all share one completion queue. Every error
// ends the process with its reason. See rdma_cm(7), ibv_create_qp(3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbs/device_node.h"

namespace bench {

class RdmaNode : public DeviceNode {
 public:
  // The server listens on a free port and sends its number over the channel.
  RdmaNode(const Measurement& m, Role role, Channel& channel);
  ~RdmaNode() override;

  // Server: accepts until `count` more queue pairs are connected.
  void accept(std::size_t count);
  // Client: connects `count` more queue pairs, at most `outstanding` at once.
  void connect(std::size_t count, std::size_t outstanding);
  // Makes `count` connections from both sides. The first of either side is the same connection.
  void establish(std::size_t count);
  // Waits until the peer has reached the same point; then closes every connection.
  void leave(Channel& channel);

  // Server: accepts `count` connections and closes each when its peer leaves.
  void serve_short_connections(std::size_t count);
  // Client: connects, and closes as soon as it is connected.
  void connect_and_close();

  ibv_qp* qp(std::size_t index) const override { return ids_[index]->qp; }

 private:
  rdma_cm_id* start_connect();
  void go_on_connecting(const Event& event);
  void accept_request(rdma_cm_id* id);
  void create_qp(rdma_cm_id* id);
  static void close(rdma_cm_id* id);
  rdma_conn_param connection_parameters() const;

  Role role_;
  std::uint8_t reads_to_peer_ = 0;    // RDMA reads outstanding at once, as the device allows
  std::uint8_t reads_from_peer_ = 0;  // RDMA reads of the peer, served at once
  std::vector<rdma_cm_id*> ids_;
};

}  // namespace bench
