// SPDX-License-Identifier: BSD-2-Clause
// The queue pair of an identifier: rdma_create_qp(3), rdma_destroy_qp(3), rdma_init_qp_attr(3), rdma_create_ep(3), and
// the transitions that librdmacm makes while it connects.
#include <cstring>

#include "fake_cm_id.h"

namespace fake {

namespace {

// Identifiers that get a queue pair without a protection domain share one for each device.
ibv_pd* default_domain(Id& id) {
  static auto* domains = new std::map<Device*, Pd*>;
  Pd*& pd = (*domains)[id.device];
  if (!pd) {
    pd = new Pd{};
    register_object(pd->tag, Kind::kPd, false);
    pd->context = id.verbs;
    pd->device = id.device;
  }
  return pd;
}

unsigned int access_flags(const Id& id) {
  const bool serves_reads = id.role == Role::kPassive ? id.mine.responder_resources
                                                      : id.theirs.initiator_depth || id.mine.responder_resources;
  return IBV_ACCESS_REMOTE_WRITE | (serves_reads ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0U);
}

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kReceiveMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kSendMask =
    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

ibv_qp_attr attributes(const Id& id, ibv_qp_state state) {
  ibv_qp_attr attr = {};
  attr.qp_state = state;
  attr.port_num = id.port_num;
  attr.qp_access_flags = access_flags(id);
  attr.qkey = RDMA_UDP_QKEY;
  attr.path_mtu = id.device->config.mtu;
  attr.dest_qp_num = id.theirs.qp_num;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = id.port_num;
  attr.ah_attr.grh.dgid = gid_of(&id.route.addr.dst_addr);
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.traffic_class = id.tos;
  const bool passive = id.role == Role::kPassive;
  const rdma_conn_param& depths = passive && id.accepted ? id.mine : id.theirs;
  attr.max_rd_atomic = depths.initiator_depth;
  attr.max_dest_rd_atomic = depths.responder_resources;
  attr.timeout = id.ack_timeout ? id.ack_timeout : 18;
  attr.retry_cnt = passive ? id.theirs.retry_count : id.mine.retry_count;
  attr.rnr_retry = id.theirs.rnr_retry_count;
  return attr;
}

int mask_for(const Id& id, ibv_qp_state state) {
  if (id.device->config.iwarp) return state == IBV_QPS_RTS ? 0 : IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  return state == IBV_QPS_INIT ? kInitMask : state == IBV_QPS_RTR ? kReceiveMask : kSendMask;
}

int create_qp(Id& id, ibv_pd* pd, ibv_qp_init_attr* attr, const char* call) {
  if (has_qp(id) || !id.device || attr->qp_type != id.qp_type) return EINVAL;
  if (!pd) pd = default_domain(id);
  if (pd->context != id.verbs) return EINVAL;
  Qp* qp = nullptr;
  if (const int error = make_qp(pd, attr, &qp, call)) return error;
  id.qp = qp;
  if (const int error = cm_initialize(id)) {
    id.qp = nullptr;
    unmake_qp(*qp, call);
    return error;
  }
  id.pd = pd;
  id.send_cq = attr->send_cq;
  id.recv_cq = attr->recv_cq;
  id.srq = attr->srq;
  return 0;
}

}  // namespace

bool has_qp(const Id& id) {
  return id.qp && static_cast<Qp*>(id.qp)->tag.magic == Tag::kAlive;
}

Qp& qp_of(const Id& id) {
  return *static_cast<Qp*>(id.qp);
}

int cm_modify(Qp& qp, const ibv_qp_attr& attr, int mask) {
  if (const int error = count_inner_call(Call::cm_modify_qp)) return error;
  return apply(qp, attr, mask);
}

int cm_initialize(Id& id) {
  Qp& qp = qp_of(id);
  if (id.qp_type == IBV_QPT_RC) return cm_modify(qp, attributes(id, IBV_QPS_INIT), kInitMask);
  constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  if (const int error = cm_modify(qp, attributes(id, IBV_QPS_INIT), kMask)) return error;
  if (const int error = cm_modify(qp, attributes(id, IBV_QPS_RTR), IBV_QP_STATE)) return error;
  return cm_modify(qp, attributes(id, IBV_QPS_RTS), IBV_QP_STATE | IBV_QP_SQ_PSN);
}

void cm_establish(Id& id) {
  const auto& all = World::get().queue_pairs;
  if (const auto found = all.find(id.mine.qp_num); found != all.end())
    establish(*found->second, attributes(id, IBV_QPS_RTS));
}

int cm_connect_qp(Id& id) {
  if (id.device->config.iwarp) return 0;
  Qp& qp = qp_of(id);
  if (const int error = cm_modify(qp, attributes(id, IBV_QPS_INIT), kInitMask)) return error;
  if (const int error = cm_modify(qp, attributes(id, IBV_QPS_RTR), kReceiveMask)) return error;
  return cm_modify(qp, attributes(id, IBV_QPS_RTS), kSendMask);
}

}  // namespace fake

using namespace fake;

extern "C" {

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
  Entry entry(Call::rdma_create_qp);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  return cm_error(create_qp(own, pd, attr, entry.name()));
}

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) {
  if (attr->comp_mask & ~static_cast<uint32_t>(IBV_QP_INIT_ATTR_PD)) return cm_error(EOPNOTSUPP);
  ibv_qp_init_attr plain = {};
  std::memcpy(&plain, attr, sizeof plain);  // the extended structure begins with the same members
  return rdma_create_qp(id, attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : nullptr, &plain);
}

void rdma_destroy_qp(rdma_cm_id* id) {
  World& world = World::get();
  const SparedAllocations spared;
  std::unique_lock<std::mutex> lock(world.mutex);
  Id& own = id_of(id, "rdma_destroy_qp");
  if (!own.qp) fatal("rdma_destroy_qp", "the id has no queue pair");
  Qp& qp = qp_of(own.qp, "rdma_destroy_qp");
  world.await_acknowledgements(lock, qp.tag, "rdma_destroy_qp");
  unmake_qp(qp, "rdma_destroy_qp");
  own.qp = nullptr;
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  Entry entry(Call::rdma_init_qp_attr);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (!own.device) return cm_error(EINVAL);
  const ibv_qp_state state = attr->qp_state;
  // The kernel knows the peer's part only while there is a request or a reply.
  const bool knows_peer = own.state == CmState::kRequestReceived || own.state == CmState::kReplySent ||
                          own.state == CmState::kReplyReceived || own.state == CmState::kEstablished;
  if (state != IBV_QPS_INIT && !knows_peer) return cm_error(EINVAL);
  *attr = attributes(own, state);
  *mask = mask_for(own, state);
  return 0;
}

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  {
    Entry entry(Call::rdma_create_ep);
    if (entry.error()) return cm_error(entry.error());
  }
  if (rdma_create_id(nullptr, id, nullptr, static_cast<rdma_port_space>(info->ai_port_space))) return -1;
  int result;
  if (info->ai_flags & RAI_PASSIVE) {
    result = rdma_bind_addr(*id, info->ai_src_addr);
  } else {
    result = rdma_resolve_addr(*id, info->ai_src_addr, info->ai_dst_addr, 2000);
    if (!result) result = rdma_resolve_route(*id, 2000);
    if (!result && attr) result = rdma_create_qp(*id, pd, attr);
  }
  if (!result) return 0;
  const int error = errno;
  rdma_destroy_id(*id);
  *id = nullptr;
  return cm_error(error);
}

void rdma_destroy_ep(rdma_cm_id* id) {
  if (id->qp) rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

int rdma_set_local_ece(rdma_cm_id*, ibv_ece*) {
  return cm_error(EOPNOTSUPP);
}

int rdma_get_remote_ece(rdma_cm_id*, ibv_ece* ece) {
  *ece = {};
  return 0;
}

}  // extern "C"
