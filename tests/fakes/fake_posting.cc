// SPDX-License-Identifier: BSD-2-Clause
// ibv_post_send(3), ibv_post_recv(3), and shared receive queues: ibv_create_srq(3), ibv_post_srq_recv(3).
#include <algorithm>
#include <cstring>
#include <utility>

#include "fake_queue_pair.h"

namespace fake {

void ReceiveRing::resize(uint32_t depth, uint32_t sge_limit) {
  requests.resize(depth);
  sges.resize(size_t{depth} * sge_limit);
  max_sge = sge_limit;
}

int ReceiveRing::push(const ibv_recv_wr& request) {
  if (full()) return ENOMEM;
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > max_sge) return EINVAL;
  const size_t at = posted % requests.size();
  requests[at] = request;
  requests[at].next = nullptr;
  requests[at].sg_list = sges.data() + at * max_sge;
  std::copy_n(request.sg_list, request.num_sge, requests[at].sg_list);
  ++posted;
  return 0;
}

namespace {

bool has_opcode(const Qp& qp, ibv_wr_opcode opcode) {
  const bool immediate = opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (qp.device->config.iwarp && (immediate || opcode >= IBV_WR_ATOMIC_CMP_AND_SWP)) return false;
  if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM) return true;
  if (qp.qp_type != IBV_QPT_RC) return false;
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_RDMA_READ ||
         opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// irdma reads and writes the first buffer of the list even if the list is empty; erdma looks at that of a read without
// a test whether there is one.
bool has_stray_buffer(const ibv_send_wr& request) {
  const bool sends = request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_SEND_WITH_IMM;
  if (sends || request.num_sge != 0) return false;
  return request.sg_list ? request.sg_list->length != 0 : request.opcode == IBV_WR_RDMA_READ;
}

// One buffer: irdma before rdma-core 44 takes only the first one.
int copy_inline(Qp& qp, size_t at, const ibv_send_wr& request) {
  if (request.num_sge > 1) return EINVAL;
  if (request.opcode == IBV_WR_RDMA_READ || request.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) return EINVAL;
  const uint32_t limit = qp.init.cap.max_inline_data;
  uint32_t length = 0;
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& sge = request.sg_list[i];
    if (sge.length > limit - length) return ENOMEM;
    if (sge.length)
      std::memcpy(qp.inline_data.data() + at * limit + length, reinterpret_cast<const void*>(sge.addr), sge.length);
    length += sge.length;
  }
  qp.sends[at].inline_length = length;
  return 0;
}

int post_one(Qp& qp, const ibv_send_wr& request) {
  if (qp.state == IBV_QPS_RESET || qp.state == IBV_QPS_INIT || qp.state == IBV_QPS_RTR) return EINVAL;
  if (qp.state == IBV_QPS_ERR && World::get().late_sends != LateSends::kFlushed)
    return World::get().late_sends == LateSends::kRefused ? EINVAL : 0;
  if (qp.posted - qp.freed >= qp.sends.size()) return ENOMEM;
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > qp.init.cap.max_send_sge) return EINVAL;
  if (!has_opcode(qp, request.opcode) || has_stray_buffer(request)) return EINVAL;
  if (request.opcode == IBV_WR_RDMA_READ && request.num_sge > qp.device->config.max_sge_rd) return EINVAL;
  if (qp.qp_type == IBV_QPT_UD && !request.wr.ud.ah) return EINVAL;
  const size_t at = qp.posted % qp.sends.size();
  if (request.send_flags & IBV_SEND_INLINE) {
    if (const int error = copy_inline(qp, at, request)) return error;
  }
  SendSlot& slot = qp.sends[at];
  slot.request = request;
  slot.request.next = nullptr;
  slot.request.sg_list = qp.send_sges.data() + at * qp.init.cap.max_send_sge;
  std::copy_n(request.sg_list, request.num_sge, slot.request.sg_list);
  ++qp.posted;
  if (qp.state == IBV_QPS_ERR && !World::get().flush_late) push_send_completion(qp, IBV_WC_WR_FLUSH_ERR, 0);
  return 0;
}

int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) {
  Entry entry(Call::ibv_post_send);
  Qp& own = qp_of(qp, entry.name());
  int error = entry.error();
  for (const ibv_send_wr* const first = requests; requests && !error; requests = requests->next) {
    if (requests != first) error = std::exchange(entry.world.second_refusal, 0);
    if (!error) error = post_one(own, *requests);
    if (error) break;
  }
  if (error) *bad = requests;
  pump(own);
  return error;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  Entry entry(Call::ibv_post_recv);
  Qp& own = qp_of(qp, entry.name());
  int error = entry.error();
  if (!error && (own.srq || own.state == IBV_QPS_RESET)) error = EINVAL;
  for (; requests && !error; requests = requests->next) {
    error = own.receives.push(*requests);
    if (error) break;
    if (own.state == IBV_QPS_ERR && !entry.world.flush_late)
      push_receive_completion(own, own.receives.take(), failure(IBV_WC_WR_FLUSH_ERR), false);
  }
  if (error) *bad = requests;
  if (own.remote) pump(*own.remote);
  return error;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  Entry entry(Call::ibv_post_srq_recv);
  Srq& own = checked<Srq>(srq, Kind::kSrq, entry.name());
  int error = entry.error();
  for (; requests && !error; requests = requests->next) {
    error = own.ring.push(*requests);
    if (error) break;
  }
  if (error) *bad = requests;
  pump_senders_to(srq);
  return error;
}

}  // namespace

void set_posting_ops(Context& context) {
  context.context.ops.post_send = post_send;
  context.context.ops.post_recv = post_recv;
}

void set_shared_receive_ops(Context& context) {
  context.context.ops.post_srq_recv = post_srq_recv;
  context.get_srq_num = [](ibv_srq* srq, uint32_t* number) {
    *number = srq->handle;
    return 0;
  };
}

}  // namespace fake

using namespace fake;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  Entry entry(Call::ibv_create_srq);
  Pd& domain = checked<Pd>(pd, Kind::kPd, entry.name());
  Device& device = *domain.device;
  if (entry.error()) return null_error(entry.error());
  if (device.removed) return null_error(EIO);
  if (attr->attr.max_wr > static_cast<uint32_t>(device.config.max_srq_wr) || !attr->attr.max_wr ||
      attr->attr.max_sge > static_cast<uint32_t>(device.config.max_srq_sge))
    return null_error(EINVAL);
  if (!take(device, Kind::kSrq, device.config.max_srq)) return null_error(ENOMEM);
  auto* srq = new Srq{};
  register_object(srq->tag, Kind::kSrq);
  srq->context = pd->context;
  srq->srq_context = attr->srq_context;
  srq->pd = pd;
  srq->handle = static_cast<uint32_t>(srq->tag.serial);
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  srq->device = &device;
  srq->ring.resize(attr->attr.max_wr, attr->attr.max_sge);
  ++domain.tag.users;
  return srq;
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  Entry entry(Call::ibv_modify_srq);
  Srq& own = checked<Srq>(srq, Kind::kSrq, entry.name());
  if (entry.error()) return entry.error();
  if (mask & IBV_SRQ_MAX_WR) return EOPNOTSUPP;
  if (mask & IBV_SRQ_LIMIT) {
    if (attr->srq_limit > own.ring.size()) return EINVAL;
    own.limit = attr->srq_limit;
  }
  return 0;
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  Entry entry(Call::ibv_query_srq);
  Srq& own = checked<Srq>(srq, Kind::kSrq, entry.name());
  if (entry.error()) return entry.error();
  *attr = {static_cast<uint32_t>(own.ring.size()), own.ring.max_sge, own.limit};
  return 0;
}

int ibv_destroy_srq(ibv_srq* srq) {
  Entry entry(Call::ibv_destroy_srq);
  Srq& own = checked<Srq>(srq, Kind::kSrq, entry.name());
  if (entry.error()) {
    excuse(own.tag);
    return entry.error();
  }
  if (own.tag.users) return busy(own.tag);
  entry.world.await_acknowledgements(entry.lock, own.tag, entry.name());
  drop_async_events(context_of(srq->context, entry.name()), &own.tag);
  --checked<Pd>(srq->pd, Kind::kPd, entry.name()).tag.users;
  give_back(*own.device, Kind::kSrq);
  own.ring = {};
  destroy_object(&own);
  return 0;
}

}  // extern "C"
