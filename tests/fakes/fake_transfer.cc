// SPDX-License-Identifier: BSD-2-Clause
// Execution of posted requests on a reliable connection: sends, RDMA writes and reads, atomics, with the checks and
// errors of the responder. A request completes as soon as it is posted, unless its receiver is not ready, its peer is
// gone, or a test holds it back.
#include <algorithm>
#include <cstring>

#include "fake_queue_pair.h"

namespace fake {

namespace {

constexpr int kRnrMicroseconds[32] = {655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
                                      480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
                                      20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
constexpr uint8_t kRnrForever = 7;

bool answers(const Qp* peer, const Qp& qp) {
  return peer && peer->attr.dest_qp_num == qp.qp_num &&
         (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS || peer->state == IBV_QPS_SQD);
}

void fail_head(Qp& qp, ibv_wc_status status) {
  qp.wait = Qp::Wait::kNo;
  qp.doomed = false;
  push_send_completion(qp, status, 0);
  enter_error(qp);
}

// Retries the head of the queue from now on; after `milliseconds` it fails.
Step wait_for(Qp& qp, Qp::Wait reason, int milliseconds, ibv_wc_status status) {
  if (qp.wait == reason) return Step::kWait;
  qp.wait = reason;
  const uint64_t ticket = ++qp.wait_ticket;
  if (milliseconds >= 0)
    World::get().after(milliseconds, &qp, [&qp, reason, ticket, status] {
      if (qp.wait == reason && qp.wait_ticket == ticket && qp.state == IBV_QPS_RTS) fail_head(qp, status);
    });
  return Step::kWait;
}

Step wait_for_peer(Qp& qp) {
  return wait_for(qp, Qp::Wait::kPeer, World::get().timing.retries_exceeded, IBV_WC_RETRY_EXC_ERR);
}

Step wait_for_receiver(Qp& qp, const Qp& peer, ibv_wc_status* status) {
  if (qp.device->config.iwarp) {
    *status = IBV_WC_REM_ABORT_ERR;
    return Step::kFailed;
  }
  if (qp.attr.rnr_retry == kRnrForever) return wait_for(qp, Qp::Wait::kReceiver, -1, IBV_WC_SUCCESS);
  const int total = qp.attr.rnr_retry * kRnrMicroseconds[peer.attr.min_rnr_timer & 31];
  return wait_for(qp, Qp::Wait::kReceiver, (total + 999) / 1000, IBV_WC_RNR_RETRY_EXC_ERR);
}

// The responder rejects the request: its own queue pair fails with an event, and the requester gets `status`.
Step refuse(Qp& peer, ibv_event_type type, ibv_wc_status refusal, ibv_wc_status* status) {
  ibv_async_event event = {};
  event.element.qp = &peer;
  event.event_type = type;
  push_async_event(context_of(peer.context, "ibv_post_send"), event, &peer.tag);
  *status = refusal;
  return Step::kFailed;
}

// A receive that cannot take the message fails first, then its queue pair.
Step fail_receive(Qp& peer, const ibv_recv_wr& receive, ibv_wc_status local, ibv_wc_status refusal,
                  ibv_wc_status* status) {
  push_receive_completion(peer, receive, failure(local), false);
  *status = refusal;
  return Step::kFailed;
}

bool carries_immediate(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

ibv_wc arrival(const Qp& qp, const ibv_send_wr& request, uint64_t length) {
  ibv_wc wc = {};
  wc.opcode = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  wc.byte_len = static_cast<uint32_t>(length);
  wc.src_qp = qp.qp_num;
  if (carries_immediate(request.opcode)) {
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = request.imm_data;
  }
  return wc;
}

Step send_message(Qp& qp, Qp& peer, const ibv_send_wr& request, const Segments& from, ibv_wc_status* status) {
  const ibv_recv_wr* receive = take_receive(peer);
  if (!receive) return wait_for_receiver(qp, peer, status);
  Segments to;
  if (!scatter_list(peer.srq ? peer.srq->pd : peer.pd, *receive, &to))
    return fail_receive(peer, *receive, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR, status);
  if (from.total > to.total) return fail_receive(peer, *receive, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR, status);
  copy(to, from);
  push_receive_completion(peer, *receive, arrival(qp, request, from.total), request.send_flags & IBV_SEND_SOLICITED);
  return Step::kDone;
}

Step write_remote(Qp& qp, Qp& peer, const ibv_send_wr& request, const Segments& from, ibv_wc_status* status) {
  Segments to;
  if (!(peer.attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
    return refuse(peer, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, status);
  if (from.total) {
    to.list[0] = {
        resolve(peer.pd, request.wr.rdma.rkey, request.wr.rdma.remote_addr, from.total, IBV_ACCESS_REMOTE_WRITE),
        from.total};
    if (!to.list[0].data) return refuse(peer, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, status);
    to.count = 1;
    to.total = from.total;
  }
  if (request.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) {
    copy(to, from);
    return Step::kDone;
  }
  const ibv_recv_wr* receive = take_receive(peer);
  if (!receive) return wait_for_receiver(qp, peer, status);
  copy(to, from);
  push_receive_completion(peer, *receive, arrival(qp, request, from.total), request.send_flags & IBV_SEND_SOLICITED);
  return Step::kDone;
}

Step read_remote(Qp& qp, Qp& peer, const ibv_send_wr& request, const Segments& to, ibv_wc_status* status) {
  if (!qp.attr.max_rd_atomic) {
    *status = IBV_WC_LOC_QP_OP_ERR;
    return Step::kFailed;
  }
  if (!peer.attr.max_dest_rd_atomic || !(peer.attr.qp_access_flags & IBV_ACCESS_REMOTE_READ))
    return refuse(peer, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, status);
  if (!to.total) return Step::kDone;
  Segments from;
  from.list[0] = {resolve(peer.pd, request.wr.rdma.rkey, request.wr.rdma.remote_addr, to.total, IBV_ACCESS_REMOTE_READ),
                  to.total};
  if (!from.list[0].data) return refuse(peer, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, status);
  from.count = 1;
  from.total = to.total;
  copy(to, from);
  return Step::kDone;
}

Step operate_atomically(Qp& qp, Qp& peer, const ibv_send_wr& request, const Segments& result, ibv_wc_status* status) {
  const auto& atomic = request.wr.atomic;
  if (result.total != sizeof(uint64_t) || !qp.attr.max_rd_atomic) {
    *status = result.total == sizeof(uint64_t) ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR;
    return Step::kFailed;
  }
  if (!peer.attr.max_dest_rd_atomic || !(peer.attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) ||
      peer.device->config.atomic_cap == IBV_ATOMIC_NONE || atomic.remote_addr % sizeof(uint64_t))
    return refuse(peer, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, status);
  char* where = resolve(peer.pd, atomic.rkey, atomic.remote_addr, sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC);
  if (!where) return refuse(peer, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, status);
  auto* target = reinterpret_cast<uint64_t*>(where);
  uint64_t before = atomic.compare_add;
  if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    before = __atomic_fetch_add(target, atomic.compare_add, __ATOMIC_SEQ_CST);
  else
    __atomic_compare_exchange_n(target, &before, atomic.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  Segments from;
  from.list[0] = {reinterpret_cast<char*>(&before), sizeof before};
  from.count = 1;
  from.total = sizeof before;
  copy(result, from);
  return Step::kDone;
}

Step send_connected(Qp& qp, uint64_t index, ibv_wc_status* status, uint32_t* byte_len) {
  const ibv_send_wr& request = qp.sends[index % qp.sends.size()].request;
  const bool into = request.opcode == IBV_WR_RDMA_READ || request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                    request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  Segments local;
  if (!gather(qp, index, into ? IBV_ACCESS_LOCAL_WRITE : 0, &local)) {
    *status = IBV_WC_LOC_PROT_ERR;
    return Step::kFailed;
  }
  if (local.total > qp.device->config.max_msg_size) {
    *status = IBV_WC_LOC_LEN_ERR;
    return Step::kFailed;
  }
  if (!answers(qp.remote, qp)) return wait_for_peer(qp);
  *byte_len = static_cast<uint32_t>(local.total);
  Qp& peer = *qp.remote;
  Step step;
  if (request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_SEND_WITH_IMM)
    step = send_message(qp, peer, request, local, status);
  else if (request.opcode == IBV_WR_RDMA_READ)
    step = read_remote(qp, peer, request, local, status);
  else if (into)
    step = operate_atomically(qp, peer, request, local, status);
  else
    step = write_remote(qp, peer, request, local, status);
  if (step == Step::kFailed && *status != IBV_WC_LOC_LEN_ERR && *status != IBV_WC_LOC_QP_OP_ERR) enter_error(peer);
  return step;
}

bool take_script(std::map<uint32_t, int>& counts, uint32_t qp_num) {
  for (const uint32_t key : {qp_num, 0U}) {
    const auto found = counts.find(key);
    if (found == counts.end() || !found->second) continue;
    --found->second;
    return true;
  }
  return false;
}

// The outcome that a test has scripted for the request at the head. kDone: none.
Step follow_script(Qp& qp, ibv_wc_status* status) {
  World& world = World::get();
  for (const uint32_t key : {qp.qp_num, 0U}) {
    const auto found = world.scripted_status.find(key);
    if (found == world.scripted_status.end()) continue;
    *status = found->second;
    world.scripted_status.erase(found);
    return Step::kFailed;
  }
  if (take_script(world.lost_messages, qp.qp_num)) {
    qp.doomed = true;
    return wait_for_peer(qp);
  }
  return Step::kDone;
}

void pump_head(Qp& qp) {
  World& world = World::get();
  while (qp.done < qp.posted && qp.state == IBV_QPS_RTS && !qp.doomed && !world.data_held) {
    ibv_wc_status status = IBV_WC_SUCCESS;
    uint32_t byte_len = 0;
    Step step = world.scripted && qp.wait == Qp::Wait::kNo ? follow_script(qp, &status) : Step::kDone;
    if (step == Step::kDone)
      step = qp.qp_type == IBV_QPT_UD ? send_datagram(qp, qp.done, &status)
                                      : send_connected(qp, qp.done, &status, &byte_len);
    if (step == Step::kWait) return;
    if (step == Step::kFailed) return fail_head(qp, status);
    qp.wait = Qp::Wait::kNo;
    if (world.scripted && take_script(world.lost_acknowledgements, qp.qp_num)) {
      qp.doomed = true;
      wait_for_peer(qp);
      return;
    }
    push_send_completion(qp, IBV_WC_SUCCESS, byte_len);
  }
}

}  // namespace

void find_remote(Qp& qp) {
  qp.remote = nullptr;
  if (qp.qp_type != IBV_QPT_RC || (qp.state != IBV_QPS_RTR && qp.state != IBV_QPS_RTS)) return;
  const auto found = World::get().queue_pairs.find(qp.attr.dest_qp_num);
  if (found != World::get().queue_pairs.end()) qp.remote = found->second;
  // The peer may have failed first.
  if (qp.remote && qp.remote->attr.dest_qp_num == qp.qp_num && !qp.remote->remote) qp.remote->remote = &qp;
}

// Failing a peer re-enters here while the failed request is still at the head: hence `pumping`.
void pump(Qp& qp) {
  if (qp.pumping) return;
  qp.pumping = true;
  pump_head(qp);
  qp.pumping = false;
}

void pump_senders_to(const ibv_srq* srq) {
  for (auto& [number, qp] : World::get().queue_pairs)
    if (qp->srq == srq && qp->remote) pump(*qp->remote);
}

void push_send_completion(Qp& qp, ibv_wc_status status, uint32_t byte_len) {
  const ibv_send_wr& request = qp.sends[qp.done++ % qp.sends.size()].request;
  if (status == IBV_WC_SUCCESS && !qp.init.sq_sig_all && !(request.send_flags & IBV_SEND_SIGNALED)) return;
  constexpr ibv_wc_opcode kOpcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,     IBV_WC_SEND,
                                        IBV_WC_RDMA_READ,  IBV_WC_COMP_SWAP,  IBV_WC_FETCH_ADD};
  Completion completion = {};
  completion.wc.wr_id = request.wr_id;
  completion.wc.status = status;
  completion.wc.qp_num = qp.qp_num;
  if (status == IBV_WC_SUCCESS) {
    completion.wc.opcode = kOpcodes[request.opcode];
    completion.wc.byte_len = byte_len;
  } else {
    completion.wc.opcode = IBV_WC_DRIVER3;  // undefined after an error, ibv_poll_cq(3)
    completion.wc.vendor_err = 0x81;
  }
  completion.slots_end = qp.done;
  completion.qp = &qp;
  push_completion(qp.send_cq, completion);
}

void push_receive_completion(Qp& qp, const ibv_recv_wr& request, const ibv_wc& wc, bool solicited) {
  Completion completion = {};
  completion.wc = wc;
  completion.wc.wr_id = request.wr_id;
  completion.wc.qp_num = qp.qp_num;
  if (wc.status != IBV_WC_SUCCESS) {
    completion.wc.opcode = IBV_WC_DRIVER3;
    completion.wc.vendor_err = 0x82;
  }
  completion.slots_end = qp.receives.taken;
  completion.qp = &qp;
  completion.srq = static_cast<Srq*>(qp.srq);
  completion.receive = true;
  completion.solicited = solicited;
  push_completion(qp.recv_cq, completion);
}

const ibv_recv_wr* take_receive(Qp& qp) {
  if (!qp.srq) return qp.receives.empty() ? nullptr : &qp.receives.take();
  Srq& srq = *static_cast<Srq*>(qp.srq);
  if (srq.ring.empty()) return nullptr;
  const ibv_recv_wr* receive = &srq.ring.take();
  if (srq.limit && srq.ring.waiting() < srq.limit) {
    srq.limit = 0;
    ibv_async_event event = {};
    event.element.srq = &srq;
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    push_async_event(context_of(srq.context, "receive"), event, &srq.tag);
  }
  return receive;
}

bool gather(const Qp& qp, uint64_t index, unsigned int access, Segments* segments) {
  const size_t at = index % qp.sends.size();
  const SendSlot& slot = qp.sends[at];
  if (slot.request.send_flags & IBV_SEND_INLINE) {
    char* data = const_cast<char*>(qp.inline_data.data()) + at * qp.init.cap.max_inline_data;
    segments->list[0] = {data, slot.inline_length};
    segments->count = 1;
    segments->total = slot.inline_length;
    return true;
  }
  for (int i = 0; i < slot.request.num_sge; ++i) {
    const ibv_sge& sge = slot.request.sg_list[i];
    if (!sge.length) continue;
    char* data = resolve(qp.pd, sge.lkey, sge.addr, sge.length, access);
    if (!data) return false;
    segments->list[segments->count++] = {data, sge.length};
    segments->total += sge.length;
  }
  return true;
}

bool scatter_list(const ibv_pd* pd, const ibv_recv_wr& request, Segments* segments) {
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& sge = request.sg_list[i];
    if (!sge.length) continue;
    char* data = resolve(pd, sge.lkey, sge.addr, sge.length, IBV_ACCESS_LOCAL_WRITE);
    if (!data) return false;
    segments->list[segments->count++] = {data, sge.length};
    segments->total += sge.length;
  }
  return true;
}

// `skip` bytes of the destination stay as they are.
void copy(const Segments& to, const Segments& from, uint64_t skip) {
  int target = 0;
  uint64_t offset = skip;
  for (int source = 0; source < from.count; ++source) {
    for (uint64_t done = 0; done < from.list[source].length;) {
      while (target < to.count && offset >= to.list[target].length) offset -= to.list[target++].length;
      if (target == to.count) return;
      const uint64_t some = std::min(from.list[source].length - done, to.list[target].length - offset);
      std::memmove(to.list[target].data + offset, from.list[source].data + done, some);
      done += some;
      offset += some;
    }
  }
}

void hold_data() {
  World& world = World::get();
  Guard guard(world.mutex);
  world.data_held = true;
}

void deliver_data() {
  World& world = World::get();
  Guard guard(world.mutex);
  world.data_held = false;
  for (auto& [number, qp] : world.queue_pairs) pump(*qp);
}

}  // namespace fake
