// SPDX-License-Identifier: BSD-2-Clause
// Unreliable datagrams: address handles (ibv_create_ah(3)), multicast groups (ibv_attach_mcast(3)), delivery with a
// global route header of 40 bytes in front. A message without a receiver, with a wrong key or without room is dropped.
// Members of a group also receive their own messages, as with rxe.
#include <algorithm>
#include <cstring>

#include "fake_queue_pair.h"

namespace fake {

struct Ah : ibv_ah {
  Tag tag;
  Device* device = nullptr;
  ibv_ah_attr attr = {};
};

namespace {

constexpr uint64_t kGrh = sizeof(ibv_grh);

bool is_ipv4(const ibv_gid& gid) {
  return !gid.global.subnet_prefix && gid.raw[8] == 0 && gid.raw[9] == 0 && gid.raw[10] == 0xff && gid.raw[11] == 0xff;
}

// RoCEv2 over IPv4: 20 bytes of zeros, then the IPv4 header.
ibv_grh ipv4_header_for(const ibv_grh& grh) {
  unsigned char bytes[sizeof grh] = {};
  unsigned char* const header = bytes + 20;
  header[0] = 0x45;
  header[8] = grh.hop_limit;
  header[9] = 17;
  std::memcpy(header + 12, grh.sgid.raw + 12, 4);
  std::memcpy(header + 16, grh.dgid.raw + 12, 4);
  unsigned sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<unsigned>(header[i] << 8 | header[i + 1]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  header[10] = static_cast<unsigned char>(~sum >> 8);
  header[11] = static_cast<unsigned char>(~sum);
  ibv_grh result;
  std::memcpy(&result, bytes, sizeof result);
  return result;
}

ibv_grh header_for(const Ah& ah, const Qp& qp, uint64_t length) {
  ibv_grh grh = {};
  grh.version_tclass_flow = htobe32(0x60000000);
  grh.paylen = htobe16(static_cast<uint16_t>(length));
  grh.next_hdr = 0x1b;
  grh.hop_limit = ah.attr.grh.hop_limit;
  const size_t index = ah.attr.grh.sgid_index;
  const std::vector<GidEntry>& gids = port_of(*qp.device, ah.attr.port_num)->gids;
  if (index < gids.size()) grh.sgid = gids[index].gid;
  grh.dgid = ah.attr.grh.dgid;
  return is_ipv4(grh.dgid) ? ipv4_header_for(grh) : grh;
}

void deliver_to(Qp& peer, Qp& qp, const ibv_send_wr& request, const Ah& ah, const Segments& from) {
  const bool ready = peer.state == IBV_QPS_RTR || peer.state == IBV_QPS_RTS;
  const uint32_t qkey = request.wr.ud.remote_qkey & 0x80000000 ? qp.attr.qkey : request.wr.ud.remote_qkey;
  if (!ready || peer.qp_type != IBV_QPT_UD || peer.attr.qkey != qkey) return;
  const ibv_recv_wr* receive = take_receive(peer);
  if (!receive) return;
  Segments to;
  if (!scatter_list(peer.srq ? peer.srq->pd : peer.pd, *receive, &to) || to.total < from.total + kGrh) {
    const ibv_wc_status status = to.total ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR;
    push_receive_completion(peer, *receive, failure(status), false);
    enter_error(peer);
    return;
  }
  ibv_grh grh = header_for(ah, qp, from.total);
  Segments header;
  header.list[0] = {reinterpret_cast<char*>(&grh), kGrh};
  header.count = 1;
  header.total = kGrh;
  copy(to, header);
  copy(to, from, kGrh);
  ibv_wc wc = {};
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = static_cast<uint32_t>(from.total + kGrh);
  wc.src_qp = qp.qp_num;
  wc.wc_flags = IBV_WC_GRH;
  if (request.opcode == IBV_WR_SEND_WITH_IMM) {
    wc.wc_flags |= IBV_WC_WITH_IMM;
    wc.imm_data = request.imm_data;
  }
  push_receive_completion(peer, *receive, wc, request.send_flags & IBV_SEND_SOLICITED);
}

bool same(const ibv_gid& a, const ibv_gid& b) {
  return !std::memcmp(a.raw, b.raw, sizeof a.raw);
}

bool is_member(const Qp& qp, const ibv_gid& group) {
  return std::any_of(qp.groups.begin(), qp.groups.end(), [&](const ibv_gid& gid) { return same(gid, group); });
}

// Counts the memberships of other queue pairs. rxe returns ENOMEM for both limits.
bool has_room(const Qp& qp, const ibv_gid& group) {
  std::vector<ibv_gid> groups;
  int members = 0;
  for (const auto& [number, peer] : World::get().queue_pairs) {
    if (peer->device != qp.device) continue;
    members += is_member(*peer, group);
    for (const ibv_gid& gid : peer->groups)
      if (std::none_of(groups.begin(), groups.end(), [&](const ibv_gid& known) { return same(known, gid); }))
        groups.push_back(gid);
  }
  const DeviceConfig& config = qp.device->config;
  if (members != 0) return members < config.max_group_members;
  return groups.size() < static_cast<size_t>(config.max_groups);
}

int change_membership(ibv_qp* qp, const ibv_gid* gid, Call call, bool (*change)(Qp&, const ibv_gid&)) {
  Entry entry(call);
  Qp& own = qp_of(qp, entry.name());
  if (entry.error()) return entry.error();
  if (call == Call::ibv_attach_mcast && !is_member(own, *gid) && !has_room(own, *gid)) return ENOMEM;
  return own.qp_type == IBV_QPT_UD && change(own, *gid) ? 0 : EINVAL;
}

}  // namespace

Step send_datagram(Qp& qp, uint64_t index, ibv_wc_status* status) {
  const ibv_send_wr& request = qp.sends[index % qp.sends.size()].request;
  const Ah& ah = checked<Ah>(request.wr.ud.ah, Kind::kAh, "ibv_post_send");
  Segments from;
  *status = IBV_WC_LOC_PROT_ERR;
  if (!gather(qp, index, 0, &from)) return Step::kFailed;
  *status = IBV_WC_LOC_LEN_ERR;
  if (from.total > 128U << qp.device->config.mtu) return Step::kFailed;
  *status = IBV_WC_SUCCESS;
  World& world = World::get();
  const ibv_gid& destination = ah.attr.grh.dgid;
  if (request.wr.ud.remote_qpn == 0xffffff) {
    for (auto& [number, peer] : world.queue_pairs)
      if (is_member(*peer, destination)) deliver_to(*peer, qp, request, ah, from);
    return Step::kDone;
  }
  const auto found = world.queue_pairs.find(request.wr.ud.remote_qpn);
  if (found != world.queue_pairs.end() && device_with_gid(destination) == found->second->device)
    deliver_to(*found->second, qp, request, ah, from);
  return Step::kDone;
}

bool join_group(Qp& qp, const ibv_gid& group) {
  if (!is_member(qp, group)) qp.groups.push_back(group);
  return true;
}

bool leave_group(Qp& qp, const ibv_gid& group) {
  if (!is_member(qp, group)) return false;
  qp.groups.erase(
      std::remove_if(qp.groups.begin(), qp.groups.end(), [&](const ibv_gid& gid) { return same(gid, group); }),
      qp.groups.end());
  return true;
}

}  // namespace fake

using namespace fake;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  Entry entry(Call::ibv_create_ah);
  Pd& domain = checked<Pd>(pd, Kind::kPd, entry.name());
  if (entry.error()) return null_error(entry.error());
  if (domain.device->removed) return null_error(EIO);
  if (!port_of(*domain.device, attr->port_num) || !attr->is_global)
    return null_error(EINVAL);  // Ethernet needs the route header
  if (!take(*domain.device, Kind::kAh, domain.device->config.max_ah)) return null_error(ENOMEM);
  auto* ah = new Ah{};
  register_object(ah->tag, Kind::kAh);
  ah->context = pd->context;
  ah->pd = pd;
  ah->handle = static_cast<uint32_t>(ah->tag.serial);
  ah->device = domain.device;
  ah->attr = *attr;
  ++domain.tag.users;
  return ah;
}

int ibv_destroy_ah(ibv_ah* ah) {
  Entry entry(Call::ibv_destroy_ah);
  Ah& own = checked<Ah>(ah, Kind::kAh, entry.name());
  if (entry.error()) {
    excuse(own.tag);
    return entry.error();
  }
  --checked<Pd>(ah->pd, Kind::kPd, entry.name()).tag.users;
  give_back(*own.device, Kind::kAh);
  destroy_object(&own);
  return 0;
}

int ibv_init_ah_from_wc(ibv_context*, uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attr) {
  *attr = {};
  if (!(wc->wc_flags & IBV_WC_GRH)) return -1;
  attr->port_num = port;
  attr->is_global = 1;
  attr->grh.dgid = grh->sgid;
  attr->grh.hop_limit = 64;
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr)) return null_error(EINVAL);
  return ibv_create_ah(pd, &attr);
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return change_membership(qp, gid, Call::ibv_attach_mcast, join_group);
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return change_membership(qp, gid, Call::ibv_detach_mcast, leave_group);
}

}  // extern "C"
