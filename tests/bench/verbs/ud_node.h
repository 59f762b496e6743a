// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over one unreliable datagram queue pair and its peer. Every error ends the process with its
// reason. See ibv_create_ah(3), rdma_join_multicast(3).
#pragma once

#include "verbs/device_node.h"

namespace bench {

class UdNode : public DeviceNode {
 public:
  // The sides exchange their queue pairs over the channel.
  UdNode(const Measurement& m, Channel& channel);
  ~UdNode() override;

  ibv_qp* qp(std::size_t) const override { return bound_->qp; }
  void address(ibv_send_wr& request) const override;
  std::size_t header() const override { return sizeof(ibv_grh); }

  void meet(Channel& channel);

  // The interface of join_workload.h: a member that receives and may send.
  void join(const sockaddr_in& group);
  void leave_group();

 private:
  std::uint8_t own_gid_index(ibv_gid& gid) const;

  ibv_ah* peer_ = nullptr;
  std::uint32_t peer_number_ = 0;
  sockaddr_in group_{};
  ibv_ah* group_handle_ = nullptr;
};

}  // namespace bench
