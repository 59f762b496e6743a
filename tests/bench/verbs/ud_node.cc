// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over datagram queue pairs; see ud_node.h.
#include "verbs/ud_node.h"

#include <cstring>

#include "process/message_workloads.h"

namespace bench {
namespace {

constexpr std::uint8_t kHopLimit = 64;

}  // namespace

// rdma_cm makes the queue pair of an id for datagrams ready, with the key of RDMA_UDP_QKEY.
UdNode::UdNode(const Measurement& m, Channel& channel) : DeviceNode(m, RDMA_PS_UDP) {
  ibv_qp_init_attr attr = queue_pair_attributes(IBV_QPT_UD);
  check("rdma_create_qp", rdma_create_qp(bound_, pd_, &attr));
  ibv_gid gid{};
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = bound_->port_num;
  path.grh.sgid_index = own_gid_index(gid);
  path.grh.hop_limit = kHopLimit;
  path.grh.dgid = gid;  // both sides have the one address of the device
  peer_ = check_object("ibv_create_ah", ibv_create_ah(pd_, &path));
  channel.put(bound_->qp->qp_num);
  peer_number_ = static_cast<std::uint32_t>(channel.get());
  if (m.workload == kSelfWorkload) peer_number_ = bound_->qp->qp_num;
}

UdNode::~UdNode() {
  ibv_destroy_ah(peer_);
  rdma_destroy_qp(bound_);
}

// An address of IPv4 is a GID of its own; of RoCE version 2 where there are two.
std::uint8_t UdNode::own_gid_index(ibv_gid& gid) const {
  gid.raw[10] = gid.raw[11] = 0xff;
  std::memcpy(gid.raw + 12, &address_.sin_addr, sizeof address_.sin_addr);
  ibv_gid_entry entries[64];
  const ssize_t count = ibv_query_gid_table(bound_->verbs, entries, std::size(entries), 0);
  int found = -1;
  for (ssize_t i = 0; i < count; ++i) {
    const bool own = std::memcmp(entries[i].gid.raw, gid.raw, sizeof gid.raw) == 0;
    if (own && (found < 0 || entries[i].gid_type == IBV_GID_TYPE_ROCE_V2))
      found = static_cast<int>(entries[i].gid_index);
  }
  if (found < 0) fail("the device has no GID of its address");
  return static_cast<std::uint8_t>(found);
}

void UdNode::address(ibv_send_wr& request) const {
  request.wr.ud = {peer_, peer_number_, RDMA_UDP_QKEY};
}

void UdNode::meet(Channel& channel) {
  channel.put(0);
  channel.get();
}

void UdNode::join(const sockaddr_in& group) {
  group_ = group;
  check("rdma_join_multicast", rdma_join_multicast(bound_, reinterpret_cast<sockaddr*>(&group_), nullptr));
  const Event joined = next_event();
  if (joined.type != RDMA_CM_EVENT_MULTICAST_JOIN) fail("an event that is not MULTICAST_JOIN");
  ibv_ah_attr path = joined.ud.ah_attr;
  group_handle_ = check_object("ibv_create_ah", ibv_create_ah(pd_, &path));
}

void UdNode::leave_group() {
  check("rdma_leave_multicast", rdma_leave_multicast(bound_, reinterpret_cast<sockaddr*>(&group_)));
  check_verbs("ibv_destroy_ah", ibv_destroy_ah(group_handle_));
}

}  // namespace bench
