// SPDX-License-Identifier: BSD-2-Clause
// rdma_join_multicast(3), rdma_join_multicast_ex(3), rdma_leave_multicast(3), with the answers that rxe gives.
#include <algorithm>
#include <cstring>

#include "fake_cm_id.h"

namespace fake {

namespace {

constexpr int kNotSupported = 524;  // the kernel's ENOTSUPP, which has no name here
constexpr uint32_t kMulticastQp = 0xffffff;

bool is_multicast(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return IN_MULTICAST(be32toh(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr));
  if (address->sa_family == AF_IB) return gid_of(address).raw[0] == 0xff;
  return IN6_IS_ADDR_MULTICAST(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

bool same_gid(const ibv_gid& a, const ibv_gid& b) {
  return !std::memcmp(a.raw, b.raw, sizeof a.raw);
}

int join(rdma_cm_id* id, const sockaddr* address, bool receives, void* context) {
  Entry entry(Call::rdma_join_multicast);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (!own.device || own.ps != RDMA_PS_UDP) return cm_error(EINVAL);
  const bool named_by_gid = address->sa_family == AF_IB && own.device->config.infiniband;
  if (!named_by_gid && address->sa_family != own.route.addr.src_addr.sa_family) return cm_error(kNotSupported);
  rdma_ud_param param = {};
  param.private_data = context;
  if (!is_multicast(address)) {
    push_datagram_event(own, RDMA_CM_EVENT_MULTICAST_ERROR, -1, param, false);
    return 0;
  }
  const ibv_gid group = gid_of(address);
  if (std::any_of(own.groups.begin(), own.groups.end(), [&](const ibv_gid& gid) { return same_gid(gid, group); }))
    return cm_error(EADDRINUSE);
  own.groups.push_back(group);
  param.qp_num = kMulticastQp;
  param.qkey = RDMA_UDP_QKEY;
  param.ah_attr.is_global = 1;
  param.ah_attr.port_num = own.port_num;
  param.ah_attr.grh.dgid = group;
  param.ah_attr.grh.hop_limit = 1;
  param.ah_attr.grh.sgid_index = source_index(own);
  push_datagram_event(own, RDMA_CM_EVENT_MULTICAST_JOIN, 0, param, receives);
  return 0;
}

}  // namespace

uint8_t source_index(const Id& id) {
  const ibv_gid own = gid_of(&id.route.addr.src_addr);
  const auto& gids = port_of(*id.device, id.port_num)->gids;
  const auto found =
      std::find_if(gids.begin(), gids.end(), [&](const auto& entry) { return same_gid(entry.gid, own); });
  return found == gids.end() ? uint8_t{0} : static_cast<uint8_t>(found - gids.begin());
}

}  // namespace fake

using namespace fake;

extern "C" {

int rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  return join(id, address, true, context);
}

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr, void* context) {
  constexpr uint32_t kKnown = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if ((attr->comp_mask & ~kKnown) || !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) ||
      attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
    return cm_error(ENOTSUP);
  return join(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

int rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
  Entry entry(Call::rdma_leave_multicast);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  const ibv_gid group = gid_of(address);
  const auto found =
      std::find_if(own.groups.begin(), own.groups.end(), [&](const ibv_gid& gid) { return same_gid(gid, group); });
  if (found == own.groups.end()) return cm_error(EADDRNOTAVAIL);
  own.groups.erase(found);
  if (has_qp(own)) leave_group(qp_of(own), group);
  return 0;
}

}  // extern "C"
