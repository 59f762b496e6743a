// SPDX-License-Identifier: BSD-2-Clause
// What a datagram costs above verbs, from its post to the receive that takes its receive's place; see cost_main.cc. A
// queue pair sends to itself, and asks for a work completion of the last message of a batch only.
#include "cost.h"
#include "datagram_world.h"
#include "raw_end.h"

namespace {

using namespace cost;

constexpr std::uint32_t kSize = 8;
constexpr std::uint32_t kHeader = sizeof(ibv_grh);

}  // namespace

extern "C" {

// Both take kBatch messages; their receives are posted.
__attribute__((noinline)) int measured_raw_datagrams(ibv_qp* qp, ibv_cq* cq, ibv_send_wr* send, ibv_recv_wr* receive) {
  ibv_send_wr* bad_send;
  ibv_recv_wr* bad_receive;
  for (int i = 0; i < kBatch; ++i) {
    send->send_flags = IBV_SEND_INLINE | (i + 1 == kBatch ? IBV_SEND_SIGNALED : 0);
    if (ibv_post_send(qp, send, &bad_send)) return -1;
  }
  ibv_wc done[kBatch + 1];
  const int count = ibv_poll_cq(cq, kBatch + 1, done);
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    if (done[i].status != IBV_WC_SUCCESS) return -1;
    if ((done[i].opcode & IBV_WC_RECV) == 0) continue;
    if (ibv_post_recv(qp, receive, &bad_receive)) return -1;
    ++taken;
  }
  return taken;
}

__attribute__((noinline)) int measured_fabric_datagrams(Member* member, fi_addr_t self, const fi_msg* last) {
  for (int i = 0; i + 1 < kBatch; ++i)
    if (fi_send(member->ep, member->out, kSize, nullptr, self, nullptr)) return -1;
  if (fi_sendmsg(member->ep, last, FI_COMPLETION)) return -1;
  fi_cq_msg_entry entries[kBatch + 1];
  const ssize_t count = fi_cq_read(member->cq, entries, kBatch + 1);
  int taken = 0;
  for (ssize_t i = 0; i < count; ++i) {
    if ((entries[i].flags & FI_RECV) == 0) continue;
    if (fi_recv(member->ep, member->in, kSize, nullptr, FI_ADDR_UNSPEC, member)) return -1;
    ++taken;
  }
  return taken;
}

}  // extern "C"

namespace cost {

int run_raw_datagrams() {
  raw::Lab lab;
  rdma_cm_id* id = lab.new_id(RDMA_PS_UDP);
  sockaddr_in own = raw::loopback();
  if (rdma_bind_addr(id, raw::generic(own))) return 1;
  raw::End end(id);
  ibv_ah_attr path = {};
  path.is_global = path.port_num = 1;
  // The same route header as through libfabric: IPv4's.
  path.grh.dgid.raw[10] = path.grh.dgid.raw[11] = 0xff;
  std::memcpy(path.grh.dgid.raw + 12, &own.sin_addr, sizeof own.sin_addr);
  ibv_ah* ah = ibv_create_ah(end.pd(), &path);
  ibv_sge out = end.sge(0, kSize), in = end.sge(kSize, kHeader + kSize);
  ibv_send_wr send = end.request(1, IBV_WR_SEND, &out, 0);
  send.wr.ud = {ah, end.qp()->qp_num, RDMA_UDP_QKEY};
  ibv_recv_wr receive = {2, nullptr, &in, 1};
  for (int i = 0; i < kBatch; ++i) end.receive(2, kSize, kHeader + kSize);
  const long before = allocations;
  bool complete = true;
  for (int batch = 0; batch < kBatches; ++batch)
    complete &= measured_raw_datagrams(end.qp(), end.cq(), &send, &receive) == kBatch;
  const int result = report("verbs", before, complete);
  return ibv_destroy_ah(ah) == 0 ? result : 1;
}

int run_fabric_datagrams() {
  World world;
  world.speaker.selective = FI_SELECTIVE_COMPLETION;
  if (!world.open()) return 1;
  Member& member = world.speaker;
  fi_addr_t self = FI_ADDR_NOTAVAIL;
  if (fi_av_insert(member.av, &member.name, 1, &self, 0, nullptr) != 1) return 1;
  const iovec piece{member.out, kSize};
  const fi_msg last{&piece, nullptr, 1, self, nullptr, 0};
  bool complete = true;
  for (int i = 0; i < kBatch; ++i) complete &= member.hear();
  complete &= measured_fabric_datagrams(&member, self, &last) == kBatch;  // the first message makes room for others
  const long before = allocations;
  for (int batch = 0; batch < kBatches; ++batch) complete &= measured_fabric_datagrams(&member, self, &last) == kBatch;
  return report("libfabric", before, complete);
}

}  // namespace cost
