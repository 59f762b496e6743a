// SPDX-License-Identifier: BSD-2-Clause
// Creation, states and end of queue pairs: ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_destroy_qp(3).
#include "fake_queue_pair.h"

#include <algorithm>

namespace fake {

namespace {

int check_sizes(const Device& device, const ibv_qp_init_attr& attr) {
  const DeviceConfig& config = device.config;
  const ibv_qp_cap& cap = attr.cap;
  if (device.removed) return EIO;
  if (attr.qp_type != IBV_QPT_RC && attr.qp_type != IBV_QPT_UD) return EOPNOTSUPP;
  if (!attr.send_cq || !attr.recv_cq) return EINVAL;
  if (cap.max_send_wr > static_cast<uint32_t>(config.max_qp_wr)) return EINVAL;
  if (cap.max_recv_wr > static_cast<uint32_t>(config.max_qp_wr)) return EINVAL;
  if (cap.max_send_sge > static_cast<uint32_t>(config.max_sge)) return EINVAL;
  if (cap.max_recv_sge > static_cast<uint32_t>(config.max_sge)) return EINVAL;
  if (cap.max_inline_data > config.max_inline && !config.accepts_any_inline) return EINVAL;
  return 0;
}

void allocate_rings(Qp& qp) {
  const ibv_qp_cap& cap = qp.init.cap;
  qp.sends.resize(cap.max_send_wr);
  qp.send_sges.resize(size_t{cap.max_send_wr} * cap.max_send_sge);
  qp.inline_data.resize(size_t{cap.max_send_wr} * cap.max_inline_data);
  if (!qp.srq) qp.receives.resize(cap.max_recv_wr, cap.max_recv_sge);
}

bool may_change(ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return true;
  switch (from) {
    case IBV_QPS_RESET:
      return to == IBV_QPS_INIT;
    case IBV_QPS_INIT:
      return to == IBV_QPS_INIT || to == IBV_QPS_RTR;
    case IBV_QPS_RTR:
    case IBV_QPS_SQE:
      return to == IBV_QPS_RTS;
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
      return to == IBV_QPS_RTS || to == IBV_QPS_SQD;
    default:
      return false;
  }
}

int required_attributes(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  const bool rc = type == IBV_QPT_RC;
  if (to == IBV_QPS_INIT && from == IBV_QPS_RESET)
    return IBV_QP_PKEY_INDEX | IBV_QP_PORT | (rc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
  if (to == IBV_QPS_RTR)
    return rc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                    IBV_QP_MIN_RNR_TIMER
              : 0;
  if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
    return rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC
              : IBV_QP_SQ_PSN;
  return 0;
}

// With iWARP only the kernel moves a queue pair from INIT to ready-to-send, while it connects.
bool is_left_to_kernel(const Qp& qp, ibv_qp_state target) {
  return qp.device->config.iwarp && (target == IBV_QPS_INIT || target == IBV_QPS_RTR);
}

void assign(ibv_qp_attr* to, const ibv_qp_attr& from, int mask) {
  if (mask & IBV_QP_ACCESS_FLAGS) to->qp_access_flags = from.qp_access_flags;
  if (mask & IBV_QP_PKEY_INDEX) to->pkey_index = from.pkey_index;
  if (mask & IBV_QP_PORT) to->port_num = from.port_num;
  if (mask & IBV_QP_QKEY) to->qkey = from.qkey;
  if (mask & IBV_QP_AV) to->ah_attr = from.ah_attr;
  if (mask & IBV_QP_PATH_MTU) to->path_mtu = from.path_mtu;
  if (mask & IBV_QP_TIMEOUT) to->timeout = from.timeout;
  if (mask & IBV_QP_RETRY_CNT) to->retry_cnt = from.retry_cnt;
  if (mask & IBV_QP_RNR_RETRY) to->rnr_retry = from.rnr_retry;
  if (mask & IBV_QP_RQ_PSN) to->rq_psn = from.rq_psn;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) to->max_rd_atomic = from.max_rd_atomic;
  if (mask & IBV_QP_MIN_RNR_TIMER) to->min_rnr_timer = from.min_rnr_timer;
  if (mask & IBV_QP_SQ_PSN) to->sq_psn = from.sq_psn;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) to->max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (mask & IBV_QP_DEST_QPN) to->dest_qp_num = from.dest_qp_num;
}

void forget_work(Qp& qp) {
  forget_completions_of(qp.send_cq, &qp);
  if (qp.recv_cq != qp.send_cq) forget_completions_of(qp.recv_cq, &qp);
}

// One by one: first the sends, then the receives.
void flush(Qp& qp) {
  while (qp.done < qp.posted) push_send_completion(qp, IBV_WC_WR_FLUSH_ERR, 0);
  while (!qp.srq && !qp.receives.empty())
    push_receive_completion(qp, qp.receives.take(), failure(IBV_WC_WR_FLUSH_ERR), false);
}

void forget_receives(Qp& qp) {
  qp.receives.posted = qp.receives.taken = qp.receives.freed = 0;
}

void return_to_reset(Qp& qp) {
  if (qp.state == IBV_QPS_ERR) flush(qp);
  forget_work(qp);
  qp.posted = qp.done = qp.freed = 0;
  forget_receives(qp);
  qp.wait = Qp::Wait::kNo;
  qp.doomed = false;
  qp.remote = nullptr;
  qp.attr = {};
}

}  // namespace

int make_qp(ibv_pd* pd, ibv_qp_init_attr* attr, Qp** result, const char* call) {
  World& world = World::get();
  Pd& domain = checked<Pd>(pd, Kind::kPd, call);
  Device& device = *domain.device;
  if (const int error = check_sizes(device, *attr)) return error;
  Cq& send_cq = cq_of(attr->send_cq, call);
  Cq& recv_cq = cq_of(attr->recv_cq, call);
  if (send_cq.device != &device || recv_cq.device != &device) return EINVAL;
  if (!take(device, Kind::kQp, device.config.max_qp)) return ENOMEM;
  auto* qp = new Qp{};
  register_object(qp->tag, Kind::kQp);
  constexpr uint32_t kFirstNumber = 16;
  static uint32_t next_number = kFirstNumber;  // guarded by the world's mutex, like everything here
  uint32_t number = world.reuse_numbers ? kFirstNumber : next_number;
  while (world.queue_pairs.count(number) != 0) ++number;
  next_number = std::max(next_number, number + 1);
  qp->context = pd->context;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->srq = attr->srq;
  qp->handle = qp->qp_num = number;
  qp->state = IBV_QPS_RESET;
  qp->qp_type = attr->qp_type;
  pthread_mutex_init(&qp->mutex, nullptr);
  pthread_cond_init(&qp->cond, nullptr);
  qp->device = &device;
  if (attr->srq) attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
  attr->cap.max_inline_data = std::min(attr->cap.max_inline_data, device.config.max_inline);
  qp->init = *attr;
  allocate_rings(*qp);
  ++domain.tag.users;
  ++send_cq.tag.users;
  ++recv_cq.tag.users;
  if (qp->srq) ++checked<Srq>(qp->srq, Kind::kSrq, call).tag.users;
  world.queue_pairs[qp->qp_num] = qp;
  *result = qp;
  return 0;
}

void unmake_qp(Qp& qp, const char* call) {
  World& world = World::get();
  drop_async_events(context_of(qp.context, call), &qp.tag);
  forget_work(qp);
  world.queue_pairs.erase(qp.qp_num);
  for (auto& [number, other] : world.queue_pairs) {
    if (other->remote != &qp) continue;
    other->remote = nullptr;
    pump(*other);
  }
  --checked<Pd>(qp.pd, Kind::kPd, call).tag.users;
  --cq_of(qp.send_cq, call).tag.users;
  --cq_of(qp.recv_cq, call).tag.users;
  if (qp.srq) --checked<Srq>(qp.srq, Kind::kSrq, call).tag.users;
  give_back(*qp.device, Kind::kQp);
  qp.sends = {};
  qp.send_sges = {};
  qp.inline_data = {};
  qp.receives = {};
  destroy_object(&qp);
}

void establish(Qp& qp, const ibv_qp_attr& attr) {
  assign(&qp.attr, attr, ~0);
  qp.state = IBV_QPS_RTS;
  find_remote(qp);
  pump(qp);
  if (qp.remote) pump(*qp.remote);
}

int apply(Qp& qp, const ibv_qp_attr& attr, int mask) {
  if (qp.device->removed) return EIO;
  const ibv_qp_state target = mask & IBV_QP_STATE ? attr.qp_state : qp.state;
  if (is_left_to_kernel(qp, target)) {
    if (qp.state != IBV_QPS_RESET && qp.state != IBV_QPS_INIT) return EINVAL;
    assign(&qp.attr, attr, mask);
    qp.state = IBV_QPS_INIT;
    return 0;
  }
  if (mask & IBV_QP_STATE) {
    if (!may_change(qp.state, target)) return EINVAL;
    const int required = required_attributes(qp.qp_type, qp.state, target);
    if ((mask & required) != required) return EINVAL;
  }
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC && attr.max_rd_atomic > qp.device->config.max_qp_init_rd_atom) return EINVAL;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && attr.max_dest_rd_atomic > qp.device->config.max_qp_rd_atom) return EINVAL;
  if (target == IBV_QPS_INIT && qp.state == IBV_QPS_INIT) forget_receives(qp);  // as mana
  if (target == IBV_QPS_RESET) {
    return_to_reset(qp);
  } else if (target == IBV_QPS_ERR) {
    enter_error(qp);
    return 0;
  }
  assign(&qp.attr, attr, mask);
  qp.state = target;
  if (mask & (IBV_QP_DEST_QPN | IBV_QP_STATE)) find_remote(qp);
  pump(qp);
  if (qp.remote) pump(*qp.remote);
  return 0;
}

// With a shared receive queue the receives stay there, and an event reports that this queue pair takes no more of them.
void enter_error(Qp& qp) {
  if (qp.state == IBV_QPS_ERR) return;
  const bool used = qp.state != IBV_QPS_RESET;
  qp.state = IBV_QPS_ERR;
  qp.wait = Qp::Wait::kNo;
  qp.doomed = false;
  if (!World::get().flush_late) flush(qp);
  if (qp.srq && used) {
    ibv_async_event event = {};
    event.element.qp = &qp;
    event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
    push_async_event(context_of(qp.context, "ibv_modify_qp"), event, &qp.tag);
  }
  if (qp.remote) pump(*qp.remote);
}

void flush_late(bool late) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.flush_late = late;
  if (late) return;
  for (auto& [number, qp] : world.queue_pairs)
    if (qp->state == IBV_QPS_ERR) flush(*qp);
}

void fail_queues_of(Device& device) {
  for (auto& [number, qp] : World::get().queue_pairs)
    if (qp->device == &device) enter_error(*qp);
}

void fail_queues_with(const Cq& cq) {
  const auto* c_struct = reinterpret_cast<const ibv_cq*>(static_cast<const ibv_cq_ex*>(&cq));
  for (auto& [number, qp] : World::get().queue_pairs)
    if (qp->send_cq == c_struct || qp->recv_cq == c_struct) enter_error(*qp);
}

void release_slots(const Completion& completion) {
  if (completion.srq) {
    if (completion.srq->tag.magic == Tag::kAlive) ++completion.srq->ring.freed;
  } else if (completion.qp) {
    uint64_t& freed = completion.receive ? completion.qp->receives.freed : completion.qp->freed;
    freed = std::max(freed, completion.slots_end);
  }
}

Tag* tag_of_event(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return &cq_of(event.element.cq, "ibv_ack_async_event").tag;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return &checked<Srq>(event.element.srq, Kind::kSrq, "ibv_ack_async_event").tag;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return &qp_of(event.element.qp, "ibv_ack_async_event").tag;
    default:
      return nullptr;
  }
}

void raise(ibv_qp* qp, ibv_event_type type) {
  World& world = World::get();
  Guard guard(world.mutex);
  Qp& own = qp_of(qp, "fake::raise");
  if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR) enter_error(own);
  push_async_event(context_of(qp->context, "fake::raise"), {.element = {.qp = qp}, .event_type = type}, &own.tag);
}

std::vector<ibv_qp*> queue_pairs() {
  World& world = World::get();
  Guard guard(world.mutex);
  std::vector<ibv_qp*> result;
  for (auto& [number, qp] : world.queue_pairs) result.push_back(qp);
  return result;
}

}  // namespace fake

using namespace fake;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  Entry entry(Call::ibv_create_qp);
  if (entry.error()) return null_error(entry.error());
  Qp* qp = nullptr;
  if (const int error = make_qp(pd, attr, &qp, entry.name())) return null_error(error);
  return qp;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  Entry entry(Call::ibv_modify_qp);
  Qp& own = qp_of(qp, entry.name());
  return entry.error() ? entry.error() : apply(own, *attr, mask);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  Entry entry(Call::ibv_query_qp);
  Qp& own = qp_of(qp, entry.name());
  if (entry.error()) return entry.error();
  *attr = own.attr;
  attr->qp_state = attr->cur_qp_state = own.state;
  attr->cap = own.init.cap;
  *init = own.init;
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  Entry entry(Call::ibv_destroy_qp);
  Qp& own = qp_of(qp, entry.name());
  if (entry.error()) {
    excuse(own.tag);
    return entry.error();
  }
  entry.world.await_acknowledgements(entry.lock, own.tag, entry.name());
  unmake_qp(own, entry.name());
  return 0;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp*) {
  return null_error(EOPNOTSUPP);
}

int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) {
  return 0;
}

}  // extern "C"
